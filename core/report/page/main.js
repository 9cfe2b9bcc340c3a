// SPDX-License-Identifier: Apache-2.0
"use strict";

// Builds the page from the document in it.

function toggle(label, onChange, checked = false) {
  const box = element("input", {type: "checkbox"});
  box.checked = checked;
  box.addEventListener("change", () => onChange(box.checked));
  return element("label", {}, box, ` ${label}`);
}

function choice(label, options, value, onChange) {
  const select = element("select", {}, ...options.map(([name, text]) =>
    element("option", {value: name}, text)));
  select.value = value;
  select.addEventListener("change", () => onChange(select.value));
  return element("label", {}, `${label} `, select);
}

// The charts and the reader's choices.
class ChartPart {
  constructor(runs) {
    this.runs = runs;
    this.view = {axis: "step", logarithmic: false};
    this.grid = element("div", {class: "charts"});
    this.drawn = null;
  }

  section() {
    const marks = this.runs.some((run) => run.marks.length > 0);
    const about = this.runs.some(hasGaps);
    return section("Curves", element("div", {class: "controls"},
      choice("along", Object.entries(AXES).map(([name, axis]) =>
        [name, name === "tokens" && about ? "tokens (about)" : axis.title]),
      this.view.axis, (axis) => this.show({axis})),
      toggle("logarithmic", (logarithmic) => this.show({logarithmic})),
      element("span", {class: "note"}, marks ? "↻ restart  ‖ pause" : "")),
      this.grid);
  }

  show(change = {}) {
    Object.assign(this.view, change);
    this.drawn?.end();
    this.drawn = drawCharts(this.grid, this.runs, this.view);
  }

  // In the current colours, as wide as paper.
  print() {
    this.show();
    for (const plot of this.drawn.plots) plot.fit(PAPER_WIDTH);
  }
}

// The theme is the system's until the reader chooses.
function themeButton(onChange) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = element("button", {type: "button"}, "Theme");
  button.addEventListener("click", () => {
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    onChange();
  });
  dark.addEventListener("change", onChange);
  return button;
}

// Paper is light, even if the screen is not.
function preparePrinting(charts) {
  const root = document.documentElement;
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    if (charts.drawn) charts.print();
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    if (charts.drawn) charts.show();
  });
}

function runParts(runs) {
  if (runs.length === 1) return detailSections(runs[0]);
  return [partOrNote(differenceTable, runs), ...runs.map((run) => element("details",
    {class: "run"}, element("summary", {}, runTitle(run)), overview(run),
    ...detailSections(run)))];
}

function show(data) {
  const runs = (Array.isArray(data?.runs) ? data.runs : []).map(readRun);
  const main = document.querySelector("main");
  if (runs.length === 0) {
    main.append(element("p", {}, "This file has no run."));
    return;
  }
  document.title = `${runs.map(runTitle).join(", ")} – mpsd`;
  const charts = new ChartPart(runs);
  const hasCurve = runs.some((run) => run.steps.length > 0 ||
    run.evaluations.length > 0);
  document.querySelector("header").append(themeButton(() => {
    if (hasCurve) charts.show();
  }));
  main.append(...(runs.length === 1 ? [overview(runs[0])]
    : [section("Runs", comparisonTable(runs))]),
    hasCurve ? charts.section()
      : section("Curves", element("p", {class: "note"}, "No step yet.")),
    ...runParts(runs));
  document.querySelector("#left-out").append(...leftOutText(runs).map(
    (text) => element("p", {}, text)));
  if (hasCurve) charts.show();
  preparePrinting(charts);
  // For scripts outside the page, such as its tests.
  window.mpsdRunPage = {runs, charts};
}

show(parsedObject(document.querySelector("#run-document").textContent));
