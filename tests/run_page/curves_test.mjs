// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";

import {evaluationEvent, scripts, stateEvent, stepEvent} from "./scripts.mjs";

const page = scripts();

function run(count, more = {}) {
  const events = [stateEvent(0, "RUNNING"), evaluationEvent(0, 0, 3,
    {accuracy: 0.5})];
  for (let step = 1; step <= count; step += 1) {
    events.push(stepEvent(step, step, more));
  }
  events.push(evaluationEvent(count, count, 1, {accuracy: 0.75}));
  return page.readRun({job: {id: "A"}, events});
}

const keys = (charts) => charts.map((chart) => chart.key);
const chart = (charts, key) => charts.find((one) => one.key === key);

test("a run has a chart of each quantity that it reported", () => {
  const charts = page.chartsOf([run(10)]);
  assert.deepEqual(keys(charts), ["loss", "learning_rate", "grad_norm",
    "step_seconds", "tokens_per_second", "memory", "metric:accuracy"]);
  assert.deepEqual(chart(charts, "loss").curves.map((curve) =>
    [curve.name, curve.kind, curve.points.length]),
  [["loss", "smooth", 10], ["evaluation loss", "marks", 2]]);
  assert.deepEqual(chart(charts, "memory").curves.map((curve) => curve.name),
    ["process"], "what the device did not report has no curve");
});

// The tile's mean lies among the points of its curve.
test("the mean of tok/s is that of its curve", () => {
  assert.equal(page.meanSpeed(run(0)), null);
  const events = [[1, 0], [2, 100], [3, 200], [7, 600]].map(([step, speed]) =>
    stepEvent(step, step, {step_seconds: 60, tokens_per_second: speed}));
  assert.equal(page.meanSpeed(page.readRun({events})), 300);
});

test("long noisy curves have a smoothed one next to them", () => {
  const charts = page.chartsOf([run(80)]);
  assert.deepEqual(chart(charts, "loss").curves.map((curve) => curve.kind),
    ["raw", "smooth", "marks"]);
  assert.equal(chart(charts, "learning_rate").curves.length, 1);
});

test("a smoothed curve is a mean of what came before", () => {
  const points = [1, 2, 3, 4].map((step) => ({step, value: step % 2}));
  const values = page.smoothed(points).map((point) => point.value);
  assert.equal(values[0], 1);
  assert.ok(values.every((value) => value > 0 && value <= 1));
  const constant = page.smoothed([5, 6, NaN, 7].map((value, step) =>
    ({step, value: Number.isNaN(value) ? NaN : 4})));
  assert.deepEqual(constant.map((point) => point.value), [4, 4, 4]);
  const huge = page.smoothed([1, 2].map((step) => ({step, value: 1.5e308})));
  assert.equal(huge[1].value, 1.5e308);
  assert.deepEqual(page.smoothed([]), []);
});

test("compared runs have a curve each, smoothed where they can be", () => {
  const charts = page.chartsOf([run(80), run(10)]);
  assert.deepEqual(chart(charts, "loss").curves.map((curve) =>
    [curve.run, curve.kind]),
  [[0, "smooth"], [0, "marks"], [1, "smooth"], [1, "marks"]]);
  assert.deepEqual(chart(charts, "memory").curves.map((curve) => curve.run),
    [0, 1]);
});

test("columns share their places, along steps, tokens and time", () => {
  const {curves} = chart(page.chartsOf([run(3)]), "loss");
  for (const [axis, places] of [["step", [0, 1, 2, 3]],
    ["tokens", [0, 10, 20, 30]], ["time", [0, 1, 2, 3]]]) {
    const {columns, dropped} = page.columnsOf(curves, axis, false);
    assert.deepEqual(columns, [places, [null, 2, 1, 2 / 3], [3, null, null, 1]]);
    assert.equal(dropped.length, 0);
  }
});

test("tokens are counted about where steps are missing", () => {
  const of = (...steps) => page.hasGaps(page.readRun({events:
    steps.map((step) => stepEvent(step, step))}));
  assert.equal(of(1, 2, 3), false);
  assert.equal(of(1, 3), true);
  assert.equal(of(2, 3), true);
  assert.equal(of(), false);
});

test("what cannot be drawn is counted", () => {
  const points = [1, NaN, Infinity, -2, 0, 4].map((value, step) =>
    ({step, tokens: step, seconds: step, value}));
  const linear = page.columnsOf([{points}], "step", false);
  assert.deepEqual(linear.columns, [[0, 3, 4, 5], [1, -2, 0, 4]]);
  assert.equal(linear.dropped.length, 2);
  const logarithmic = page.columnsOf([{points}], "step", true);
  assert.deepEqual(logarithmic.columns, [[0, 5], [1, 4]]);
  assert.equal(logarithmic.dropped.length, 4);
});

test("a run of which all losses are NaN has a chart that says so", () => {
  const {curves} = chart(page.chartsOf([run(3, {loss: "NaN"})]), "loss");
  assert.equal(page.columnsOf(curves, "step", false).dropped.length, 3);
});

test("a metric of steps is a line, that of evaluations its marks", () => {
  const name = "rewards/margins";
  const events = [evaluationEvent(1, 0, 1, {[name]: 0}),
    stepEvent(2, 1, {metrics: {[name]: 0.5}}), stepEvent(3, 2)];
  const charts = page.chartsOf([page.readRun({events})]);
  const {curves} = chart(charts, `metric:${name}`);
  assert.deepEqual(curves.map(({kind, points}) =>
    [kind, points.map(({step, value}) => [step, value])]),
  [["marks", [[0, 0]]], ["smooth", [[1, 0.5]]]]);
});

test("hostile metrics do not make charts without end", () => {
  const metrics = {};
  for (let i = 0; i < 500; i += 1) metrics[`m${i}`] = i;
  const charts = page.metricCharts([page.readRun({events:
    [evaluationEvent(1, 1, 1, metrics)]})]);
  assert.equal(charts.length, 24);
});
