// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";

import {evaluationEvent, scripts, stateEvent, stepEvent, time}
  from "./scripts.mjs";

const page = scripts();
const steps = (run) => run.steps.map((step) => step.step);

test("steps count tokens and the seconds since the job ran", () => {
  const run = page.readRun({job: {id: "A"}, events: [
    stateEvent(0, "QUEUED"), stateEvent(10, "RUNNING"), stepEvent(12, 1),
    stepEvent(13, 2), stepEvent(17, 6)]});
  assert.deepEqual(steps(run), [1, 2, 6]);
  assert.deepEqual(run.steps.map((step) => step.seconds), [2, 3, 7]);
  // Steps 3 to 5 are missing and count as step 6 does.
  assert.deepEqual(run.steps.map((step) => step.tokens), [10, 20, 60]);
  assert.equal(run.steps[0].footprint_bytes, 1e9 + 1);
  assert.equal(run.steps[0].peak_allocated_bytes, null);
});

test("steps that were done again count as the last time", () => {
  const run = page.readRun({events: [
    stateEvent(0, "RUNNING"), stepEvent(1, 1), stepEvent(2, 2),
    evaluationEvent(2.5, 2, 9), stepEvent(3, 3),
    stateEvent(4, "QUEUED", "failure 1 of 3\nits log ends:"),
    stateEvent(5, "RUNNING"), stepEvent(6, 2, {loss: 7}), stepEvent(7, 3)]});
  assert.deepEqual(steps(run), [1, 2, 3]);
  assert.equal(run.steps[1].loss, 7);
  assert.equal(run.evaluations.length, 0);
  assert.deepEqual(run.marks.map((mark) => ({...mark})), [{kind: "restart",
    step: 1, tokens: 10, seconds: 5, text: "failure 1 of 3\nits log ends:"}]);
});

test("samples of steps that were done again count once", () => {
  const sampled = (step, ...completions) => ({time: time(step),
    sampled: {step: String(step), completions}});
  const run = page.readRun({events: [sampled(0, "a", ""), sampled(4, "b", "c"),
    sampled(8, "d", "e"), sampled(4, "f", "g")]});
  assert.deepEqual(run.answers.map(({step, texts}) => [step, ...texts]),
    [[0, "a", ""], [4, "f", "g"]]);
});

test("pauses begin and end with their notes, or with the attempt", () => {
  const run = page.readRun({events: [
    stateEvent(0, "RUNNING"), stepEvent(1, 1),
    {time: time(2), note: "paused: on battery"},
    {time: time(9), note: "resumed after 7s"}, stepEvent(10, 2),
    {time: time(11), note: "paused: too hot"},
    {time: time(12), note: "goes on after a pause of 1s"},
    {time: time(13), note: "paused: too hot"}, stateEvent(15, "QUEUED", "p")]});
  assert.deepEqual(run.marks.map((mark) => [mark.kind, mark.step, mark.seconds,
    mark.endSeconds, mark.text]),
  [["pause", 1, 2, 9, "on battery"], ["pause", 2, 11, 12, "too hot"],
    ["pause", 2, 13, 15, "too hot"]]);
});

test("a job that is paused now has a pause without end", () => {
  const run = page.readRun({job: {state: "JOB_STATE_RUNNING",
    pause: {held: true, since: time(5), reasons: ["PAUSE_REASON_USER_ACTIVE"]}},
  events: [stateEvent(0, "RUNNING"), stepEvent(1, 1)]});
  assert.equal(run.marks[0].text, "user active");
  assert.equal(page.stateText(run), "PAUSED: user active");
  assert.equal(run.marks[0].seconds, 5);
  assert.equal(run.marks[0].endSeconds, undefined);
});

// The words stand in mpsd's sources; there they may not change alone.
test("mpsd notes pauses in these words", () => {
  const source = fs.readFileSync(
    new URL("../../server/jobs/attempt.cc", import.meta.url), "utf8");
  assert.ok(source.includes(`Note(absl::StrCat("${page.PAUSE_BEGINS}"`));
  assert.ok(source.includes(`Note(absl::StrCat("${page.PAUSE_ENDS} `));
});

test("values that are not finite stay what they are", () => {
  const run = page.readRun({events: [stepEvent(1, 1, {loss: "NaN",
    grad_norm: "Infinity"}), evaluationEvent(2, 1, "-Infinity",
    {accuracy: "NaN"})]});
  assert.ok(Number.isNaN(run.steps[0].loss));
  assert.equal(run.steps[0].grad_norm, Infinity);
  assert.equal(run.evaluations[0].eval_loss, -Infinity);
  assert.ok(Number.isNaN(run.evaluations[0].metrics.accuracy));
});

test("hostile names are names", () => {
  const metrics = JSON.parse(
    '{"__proto__": 1, "constructor": 2, "<img onerror=1>": 3}');
  const run = page.readRun({events: [evaluationEvent(1, 1, 1, metrics)]});
  assert.deepEqual(Object.keys(run.evaluations[0].metrics).sort(),
    ["<img onerror=1>", "__proto__", "constructor"]);
  assert.equal({}.polluted, undefined);
});

test("what is missing or broken is empty", () => {
  for (const entry of [{}, {job: {}}, {job: {spec_json: "{"}, files:
    {"run.json": "null", "predictions.jsonl": "{\"a\": 1}\n{\"b\": "}}]) {
    const run = page.readRun(entry);
    assert.equal(run.spec, null);
    assert.equal(run.manifest, null);
    assert.equal(run.confusion, null);
    assert.equal(run.steps.length, 0);
  }
  const run = page.readRun({files: {"predictions.jsonl": "{\"a\": 1}\n{\"b"}});
  assert.equal(run.samples.length, 1, "the last line is cut off");
});

test("a confusion matrix must fit its labels", () => {
  const read = (value) => page.readConfusion(JSON.stringify(value));
  assert.deepEqual({...read({labels: ["a"], matrix: [[3]]})},
    {labels: ["a"], matrix: [[3]]});
  for (const bad of [{}, [], 3, {labels: ["a"], matrix: [[1, 2]]},
    {labels: ["a", "b"], matrix: [[1, 2]]}, {labels: [], matrix: []},
    {labels: ["a"], matrix: [7]}]) {
    assert.equal(read(bad), null);
  }
});
