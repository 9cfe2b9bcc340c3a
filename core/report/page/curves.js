// SPDX-License-Identifier: Apache-2.0
"use strict";

// Which curves a run has: points along steps, tokens or time.

// The possible x axes of a curve, and the members of a step with their values.
const AXES = {
  step: {title: "step", place: (point) => point.step, text: countText},
  tokens: {title: "tokens", place: (point) => point.tokens, text: countText},
  time: {title: "time", place: (point) => point.seconds, text: durationText},
};

// tok/s at a step, as its curve shows it; null before it is known.
function speedOf(step) {
  return step.tokens_per_second || null;
}

// Charts of steps. A curve's `value` returns null if the step has none.
const STEP_CHARTS = [
  {key: "loss", title: "Loss", text: numberText, log: true, noisy: true,
    curves: [["loss", (step) => step.loss]], evaluation: "eval_loss"},
  {key: "learning_rate", title: "Learning rate", text: numberText,
    curves: [["learning rate", (step) => step.learning_rate]]},
  {key: "grad_norm", title: "Gradient norm", text: numberText, log: true,
    noisy: true, curves: [["gradient norm", (step) => step.grad_norm]]},
  {key: "step_seconds", title: "Step time", text: durationText, log: true,
    noisy: true, curves: [["step time", (step) => step.step_seconds]]},
  {key: "tokens_per_second", title: "Throughput (tok/s)", text: numberText,
    curves: [["tok/s", speedOf]]},
  {key: "memory", title: "Memory", text: bytesText, curves: [
    ["process", (step) => step.footprint_bytes],
    ["allocated", (step) => step.current_allocated_bytes],
    ["peak", (step) => step.peak_allocated_bytes],
    ["driver", (step) => step.driver_allocated_bytes]]},
  {key: "shares", title: "Shares of time and tokens", text: shareText, curves: [
    ["waiting for data", (step) => step.data_wait_ratio],
    ["padding", (step) => step.padding_ratio],
    ["device busy", (step) => step.device_utilization_ratio]]},
];

// Fewer steps than this are not smoothed.
const FEWEST_TO_SMOOTH = 50;
// A worker may send any number of metrics per evaluation.
const MOST_METRIC_CHARTS = 24;

// A weighted mean of the values up to each point; weights halve over a fiftieth
// of the run. Non-finite values are skipped.
function smoothed(points) {
  if (points.length === 0) return [];
  const halfLife = Math.max(1,
    (points.at(-1).step - points[0].step) / 50);
  let mean = 0;
  let weights = 0;
  let last = points[0].step;
  const result = [];
  for (const point of points) {
    if (!Number.isFinite(point.value)) continue;
    const before = weights * 2 ** (-(point.step - last) / halfLife);
    weights = before + 1;
    mean = mean * (before / weights) + point.value / weights;
    last = point.step;
    result.push({...point, value: mean});
  }
  return result;
}

function pointsOf(steps, value) {
  const points = [];
  for (const step of steps) {
    const here = value(step);
    if (here === null || here === undefined) continue;
    points.push({step: step.step, tokens: step.tokens, seconds: step.seconds,
      value: here});
  }
  return points;
}

// The mean of the points of the curve of tok/s; null without a point.
function meanSpeed(run) {
  const points = pointsOf(run.steps, speedOf);
  const sum = points.reduce((before, {value}) => before + value, 0);
  return points.length > 0 ? sum / points.length : null;
}

// The curves of one chart of one run:
// {name, kind: "raw" | "smooth" | "marks", points}.
function curvesOf(chart, run, alone) {
  const curves = [];
  for (const [name, value] of chart.curves) {
    const points = pointsOf(run.steps, value);
    if (points.length === 0) continue;
    const smooth = chart.noisy && points.length >= FEWEST_TO_SMOOTH;
    if (alone || !smooth) {
      curves.push({name, kind: smooth ? "raw" : "smooth", points});
    }
    if (smooth) {
      curves.push({name: `${name}, smoothed`, kind: "smooth",
        points: smoothed(points)});
    }
  }
  if (chart.evaluation) {
    const points = pointsOf(run.evaluations, (e) => e.eval_loss);
    if (points.length > 0) {
      curves.push({name: "evaluation loss", kind: "marks", points});
    }
  }
  return curves;
}

// Whether steps between those of the run are missing, so that token counts are
// approximate.
function hasGaps(run) {
  return run.steps.some((step, at) =>
    step.step !== (at === 0 ? 0 : run.steps[at - 1].step) + 1);
}

// A chart per metric of the steps and evaluations, by name.
function metricCharts(runs) {
  const names = new Set();
  for (const run of runs) {
    for (const {metrics} of [...run.evaluations, ...run.steps.slice(-1)]) {
      for (const name of Object.keys(metrics)) names.add(name);
    }
  }
  return [...names].sort().slice(0, MOST_METRIC_CHARTS).map((name) => ({
    key: `metric:${name}`, title: name, text: numberText, metric: name,
    log: false}));
}

function metricCurve(chart, run) {
  const valueOf = ({metrics}) =>
    Object.hasOwn(metrics, chart.metric) ? metrics[chart.metric] : null;
  return [
    {name: chart.title, kind: "marks", points: pointsOf(run.evaluations, valueOf)},
    {name: `${chart.title} of steps`, kind: "smooth",
      points: pointsOf(run.steps, valueOf)},
  ].filter((curve) => curve.points.length > 0);
}

// All charts that have a point: {key, title, text, log, curves}, where each
// curve names its run by number.
function chartsOf(runs) {
  const charts = [];
  const alone = runs.length === 1;
  for (const chart of [...STEP_CHARTS, ...metricCharts(runs)]) {
    const curves = [];
    runs.forEach((run, number) => {
      const own = chart.metric === undefined ? curvesOf(chart, run, alone)
                                             : metricCurve(chart, run);
      // Of several quantities only the first is compared.
      const compared = alone ? own : own.filter((curve) =>
        chart.evaluation || curve.name.startsWith(own[0].name));
      for (const curve of compared) curves.push({...curve, run: number});
    });
    if (curves.length > 0) charts.push({...chart, curves});
  }
  return charts;
}

// Columns for the plotting library: [xs, ys of the first curve, …]. All curves
// share the sorted xs; null means that a curve has no point there. `dropped`
// counts the points that cannot be drawn: NaN, infinite, or not above 0 on a
// logarithmic scale.
function columnsOf(curves, axis, logarithmic) {
  const {place} = AXES[axis];
  const dropped = [];
  const tables = curves.map((curve) => {
    const table = new Map();
    for (const point of curve.points) {
      const x = place(point);
      const drawable = Number.isFinite(point.value) &&
        (!logarithmic || point.value > 0);
      if (Number.isFinite(x) && drawable) table.set(x, point.value);
      else dropped.push(point);
    }
    return table;
  });
  const xs = [...new Set(tables.flatMap((table) => [...table.keys()]))]
    .sort((a, b) => a - b);
  return {
    columns: [xs, ...tables.map((table) => xs.map((x) => table.get(x) ?? null))],
    dropped,
  };
}
