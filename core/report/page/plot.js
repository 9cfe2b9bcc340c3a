// SPDX-License-Identifier: Apache-2.0
"use strict";

// Draws a chart of curves.js by uPlot.

const CHART_HEIGHT = 240;  // pixels
const PAPER_WIDTH = 660;   // width in pixels on a printed page
const CURSOR_GROUP = "mpsd";
const PALETTE = 8;  // --curve-0 … in style.css
const TIME_STEPS = [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600,
  900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800, 2592000,
  31536000];
const COUNT_STEPS = Array.from({length: 16}, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name)
    .trim();
}

function curveColour(number) {
  return colour(`--curve-${number % PALETTE}`);
}

// The number of each curve's colour: a run's in a comparison, else that of the
// quantity, which a curve and its smoothed form share.
function colourNumbers(curves, alone) {
  const seen = [];
  return curves.map((curve) => {
    if (!alone) return curve.run;
    const name = curve.name.split(",")[0];
    if (!seen.includes(name)) seen.push(name);
    return seen.indexOf(name);
  });
}

function seriesOf(curve, number, label, text) {
  const stroke = () => curveColour(number);
  const shared = {label, stroke, spanGaps: true,
    value: (_, value) => value === null ? "–" : text(value)};
  if (curve.kind === "raw") return {...shared, width: 1, alpha: 0.4,
    points: {show: false}};
  if (curve.kind === "smooth") return {...shared, width: 2,
    points: {show: curve.points.length < 2, size: 5}};
  return {...shared, width: 1.5, dash: [5, 4],
    points: {show: true, size: 7, fill: stroke}};
}

function axisOf(text, options) {
  const shown = (value) => value === null ? "" : text(value);
  return {stroke: () => colour("--text"), ...options,
    grid: {stroke: () => colour("--grid"), width: 1},
    ticks: {stroke: () => colour("--grid"), width: 1},
    values: (_, splits) => splits.map(shown)};
}

// Wide enough for the longest of the values.
function widthFor(_, values) {
  const longest = Math.max(0, ...(values ?? []).map((v) => v.length));
  return 24 + 7 * longest;
}

// Draws pauses as bands if the axis is time, restarts and other pauses as
// lines, and points that cannot be drawn as crosses at the bottom.
function drawMarks(plot, marks, axis, dropped) {
  const {ctx, bbox} = plot;
  const {place} = AXES[axis];
  const at = (x) => plot.valToPos(x, "x", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const mark of marks) {
    const x = at(place(mark));
    ctx.strokeStyle = ctx.fillStyle = colour(`--${mark.kind}`);
    if (mark.kind === "pause" && axis === "time") {
      const end = mark.endSeconds === undefined ? bbox.left + bbox.width
                                                : at(mark.endSeconds);
      ctx.globalAlpha = 0.25;
      ctx.fillRect(x, bbox.top, Math.max(end - x, devicePixelRatio),
        bbox.height);
      ctx.globalAlpha = 1;
    } else {
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    ctx.fillText(mark.kind === "pause" ? "‖" : "↻", x + 3 * devicePixelRatio,
      bbox.top + 12 * devicePixelRatio);
  }
  ctx.fillStyle = colour("--restart");
  for (const point of dropped) {
    ctx.fillText("✕", at(place(point)) - 4 * devicePixelRatio,
      bbox.top + bbox.height - 3 * devicePixelRatio);
  }
  ctx.restore();
}

// The drawing of one chart, with its inputs.
class Plot {
  constructor(chart, runs, view) {
    this.chart = chart;
    this.view = view;
    this.alone = runs.length === 1;
    this.logarithmic = view.logarithmic && chart.log === true;
    const {columns, dropped} = columnsOf(chart.curves, view.axis,
      this.logarithmic);
    this.dropped = dropped;
    this.holder = element("div", {class: "plot"});
    this.figure = element("figure", {"data-key": chart.key},
      element("figcaption", {}, chart.title), this.holder,
      element("p", {class: "note"}, this.summary(runs)));
    this.marks = runs.flatMap((run) => run.marks);
    this.uplot = new uPlot(this.options(runs), columns, this.holder);
  }

  label(curve, runs) {
    if (this.alone) return curve.name;
    const kind = curve.kind === "marks" && this.chart.evaluation
      ? ", evaluation" : "";
    return runTitle(runs[curve.run]) + kind;
  }

  options(runs) {
    const {title, text} = AXES[this.view.axis];
    const numbers = colourNumbers(this.chart.curves, this.alone);
    return {
      width: 320,
      height: CHART_HEIGHT,
      padding: [null, 28, null, null],  // room for half of the last x's text
      cursor: {sync: {key: CURSOR_GROUP}, drag: {x: true, y: false}},
      scales: {
        x: {time: false, range: (_, least, most) =>
          least === most ? [least - 1, most + 1] : [least, most]},
        y: {distr: this.logarithmic ? 3 : 1},
      },
      axes: [
        axisOf(text, {space: 70, label: title, labelSize: 20, size: 34,
          incrs: this.view.axis === "time" ? TIME_STEPS : COUNT_STEPS}),
        axisOf(this.chart.text, {size: widthFor}),
      ],
      series: [{label: title, value: (_, x) => x === null ? "–" : text(x)},
        ...this.chart.curves.map((curve, index) => seriesOf(curve,
          numbers[index], this.label(curve, runs), this.chart.text))],
      hooks: {draw: [(plot) => drawMarks(plot, this.marks, this.view.axis,
        this.dropped)]},
    };
  }

  // The same in words, for printing and screen readers.
  summary(runs) {
    const words = [];
    for (const curve of this.chart.curves) {
      if (this.alone && curve.name.endsWith(", smoothed")) continue;
      let least = Infinity;
      let most = -Infinity;
      for (const {value} of curve.points) {
        if (!Number.isFinite(value)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
      }
      if (least > most) continue;
      const {text} = this.chart;
      words.push(`${this.label(curve, runs)}: last ` +
        `${text(curve.points.at(-1).value)}, ${text(least)} to ${text(most)}`);
    }
    if (this.dropped.length > 0) {
      words.push(`${countText(this.dropped.length)} marked ✕: NaN, infinite` +
        (this.logarithmic ? ", or not above 0" : ""));
    }
    return words.join("; ");
  }

  fit(width) {
    this.uplot.setSize({width: Math.max(200, width), height: CHART_HEIGHT});
  }
}

// Adds charts of `runs` to `parent` and keeps them as wide as it; returns them.
function drawCharts(parent, runs, view) {
  const plots = chartsOf(runs).map((chart) => new Plot(chart, runs, view));
  parent.replaceChildren(...plots.map((plot) => plot.figure));
  for (const plot of plots) plot.fit(plot.holder.clientWidth);
  const observer = new ResizeObserver(() => {
    for (const plot of plots) plot.fit(plot.holder.clientWidth);
  });
  observer.observe(parent);
  return {plots, end() {
    observer.disconnect();
    for (const plot of plots) plot.uplot.destroy();
  }};
}
