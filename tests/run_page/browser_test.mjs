// SPDX-License-Identifier: Apache-2.0
// Opens pages in headless Chromium: no error, no request, every curve's points
// in the charts and their colours on the canvas, hostile texts as text; light,
// dark, on a phone, on paper.
//
// usage: browser_test.mjs WRITE_RUN_PAGE NPM_FOLDER
// MPSD_SCREENSHOTS=DIR leaves pictures there, to look at. Exit status 77: there
// is no browser.

import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import {createRequire} from "node:module";
import os from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";

import {evaluationEvent, stateEvent, stepEvent, time} from "./scripts.mjs";

const BROWSERS = [process.env.CHROMIUM, "/usr/bin/chromium",
  "/usr/bin/chromium-browser", "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];
const [writer, npmFolder] = process.argv.slice(2);
const browserPath = BROWSERS.find((file) => file && fs.existsSync(file));
if (!browserPath) {
  console.log("SKIPPED: neither Chromium nor Chrome is there: run " +
    "deploy/setup.sh --tests, or name one in CHROMIUM");
  process.exit(77);
}
const puppeteer = createRequire(path.join(npmFolder, "package.json"))(
  "puppeteer-core");
const pictures = process.env.MPSD_SCREENSHOTS;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "mpsd-page-"));
const browser = await puppeteer.launch({executablePath: browserPath,
  args: ["--no-sandbox", "--force-color-profile=srgb"]});

const HOSTILE = "</script><img src=x onerror=\"window.hit = 1\">";

function run(id, {steps = 120, rate = 0.001, name = "moods"} = {}) {
  const scale = 2 + 100 * rate;  // compared curves lie apart
  const events = [stateEvent(0, "RUNNING"), evaluationEvent(1, 0, 2 * scale,
    {accuracy: scale / 10})];
  for (let step = 1; step <= steps; step += 1) {
    events.push(stepEvent(1 + step + (step > 60 ? 30 : 0), step,
      {learning_rate: rate, loss: scale / Math.sqrt(step),
        step_seconds: scale, tokens_per_second: scale, grad_norm: scale,
        memory: {footprint_bytes: String(1e9 * scale + step)}}));
    if (step === 60) {
      events.push({time: time(62), note: "paused: on battery"},
        {time: time(90), note: "resumed after 28s"});
    }
    if (step === 90) events.push(stateEvent(121, "QUEUED", "the worker died"),
      stateEvent(121.5, "RUNNING"));
    if (step % 40 === 0) events.push(evaluationEvent(2 + step +
      (step > 60 ? 30 : 0), step, 1.2 * scale / Math.sqrt(step),
    {accuracy: step / 100 / scale}));
  }
  const spec = {name, training: {learning_rate: rate, seed: 42}};
  return {
    job: {id, name, state: "JOB_STATE_SUCCEEDED", attempt: 2,
      create_time: time(0), start_time: time(0), end_time: time(170),
      progress: {step: String(steps), total_steps: String(steps)},
      spec_json: JSON.stringify(spec), metrics: {accuracy: 0.92},
      confusion_matrix_json: JSON.stringify(
        {labels: ["good", "bad"], matrix: [[9, 1], [2, 8]]})},
    events, log: "step 1\nstep 2\n",
    files: {"run.json": JSON.stringify({mpsd_version: "0.1.0", spec,
      environment: {OMP_NUM_THREADS: "1"}, train: {sha256: "ab".repeat(32),
        rows: 10}, model: {sha256: {"config.json": "cd".repeat(32)}}}),
    "predictions.jsonl": '{"index": 0, "prediction": "good", ' +
      '"scores": {"good": 0.9, "bad": 0.1}}\n'},
    left_out: {steps: 0, evaluations: 0, events: 0, log_bytes: 0},
  };
}

function hostileRun() {
  const hostile = run("01HOSTILE", {name: HOSTILE});
  hostile.job.owner = hostile.job.message = HOSTILE;
  hostile.job.warnings = [HOSTILE];
  hostile.job.labels = {[HOSTILE]: HOSTILE};
  hostile.log = HOSTILE;
  hostile.job.spec_json = JSON.stringify({[HOSTILE]: HOSTILE});
  hostile.files["run.json"] = JSON.stringify({environment: {[HOSTILE]: HOSTILE},
    model: {sha256: {[HOSTILE]: HOSTILE}}, resumed_at_steps: HOSTILE,
    trainable_parameters: {}});
  hostile.files["predictions.jsonl"] = JSON.stringify({prediction: HOSTILE,
    scores: {[HOSTILE]: HOSTILE}});
  hostile.job.confusion_matrix_json = JSON.stringify(
    {labels: [HOSTILE, "__proto__"], matrix: [[HOSTILE, "NaN"], [null, {}]]});
  hostile.events.push({sampled: {step: HOSTILE, completions: [HOSTILE]}},
    {time: HOSTILE, note: HOSTILE}, evaluationEvent(200, 120,
    "NaN", {[HOSTILE]: "Infinity", __proto__: 1, toString: "NaN"}),
  stateEvent(201, HOSTILE, HOSTILE), {checkpoint: {step: HOSTILE,
    path: HOSTILE, size_bytes: HOSTILE}},
  stepEvent(202, 121, {loss: "NaN", grad_norm: "-Infinity"}));
  return hostile;
}

// Opens a page of `runs`; what the browser complains of or asks for is in
// `page.complaints`.
async function open(name, runs, {width = 1280, height = 900, scheme = "light"}
= {}) {
  const file = path.join(folder, `${name}.html`);
  fs.writeFileSync(file, execFileSync(writer, {
    input: typeof runs === "string" ? runs : JSON.stringify({runs}),
    maxBuffer: 1 << 30}));
  const page = await browser.newPage();
  page.complaints = [];
  page.on("console", (message) => page.complaints.push(message.text()));
  page.on("pageerror", (error) => page.complaints.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith("data:") && url !== pathToFileURL(file).href) {
      page.complaints.push(`asks for ${url}`);
    }
  });
  await page.emulateMediaFeatures(
    [{name: "prefers-color-scheme", value: scheme}]);
  await page.setViewport({width, height});
  await page.goto(pathToFileURL(file).href);
  await settled(page);
  if (pictures) {
    await page.screenshot({path: path.join(pictures, `${name}.png`),
      fullPage: true});
  }
  return page;
}

// Two frames later everything is laid out and drawn.
function settled(page) {
  return page.evaluate(() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(done))));
}

// {key: {columns, pixels}} of the charts; pixels[i]: how many points of curve i
// that lie in the drawing have its colour on the canvas, of how many.
function charts(page) {
  return page.evaluate(() => Object.fromEntries(
    window.mpsdRunPage.charts.drawn.plots.map(({chart, uplot, figure}) => {
      const {width, height} = uplot.ctx.canvas;
      const probe = document.createElement("canvas").getContext("2d",
        {willReadFrequently: true});
      Object.assign(probe.canvas, {width, height});
      const rgb = (colour) => {
        probe.fillStyle = colour;
        probe.fillRect(0, 0, 1, 1);
        return probe.getImageData(0, 0, 1, 1).data;
      };
      const near = (left, top, [r, g, b]) => {
        const {data} = probe.getImageData(left - 3, top - 3, 7, 7);
        for (let at = 0; at < data.length; at += 4) {
          if (data[at + 3] > 60 && Math.abs(data[at] - r) < 70 &&
              Math.abs(data[at + 1] - g) < 70 &&
              Math.abs(data[at + 2] - b) < 70) return true;
        }
        return false;
      };
      const pixels = uplot.series.slice(1).map((series, index) => {
        const colour = rgb(series.stroke());
        probe.clearRect(0, 0, width, height);
        probe.drawImage(uplot.ctx.canvas, 0, 0);
        let all = 0;
        let found = 0;
        uplot.data[0].forEach((x, at) => {
          const y = uplot.data[index + 1][at];
          if (y === null) return;
          all += 1;
          const left = Math.round(uplot.valToPos(x, "x", true));
          const top = Math.round(uplot.valToPos(y, "y", true));
          found += near(left, top, colour) ? 1 : 0;
        });
        return [found, all];
      });
      return [chart.key, {columns: uplot.data.map((column) => [...column]),
        labels: uplot.series.map((series) => series.label), pixels,
        note: figure.querySelector(".note").textContent}];
    })));
}

function assertDrawn(drawn) {
  for (const [key, {pixels}] of Object.entries(drawn)) {
    for (const [found, all] of pixels) {
      assert.ok(all > 0, `${key}: a curve without points`);
      assert.ok(found >= 0.95 * all, `${key}: ${found} of ${all} are drawn`);
    }
  }
}

const tests = {
  async "a run's curves have all their points"() {
    const page = await open("one", [run("01RUN")]);
    const drawn = await charts(page);
    assert.deepEqual(Object.keys(drawn), ["loss", "learning_rate", "grad_norm",
      "step_seconds", "tokens_per_second", "memory", "metric:accuracy"]);
    const {columns, labels} = drawn.loss;
    assert.deepEqual(labels,
      ["step", "loss", "loss, smoothed", "evaluation loss"]);
    assert.deepEqual(columns[0], Array.from({length: 121}, (_, step) => step));
    assert.deepEqual(columns[1], [null, ...Array.from({length: 120}, (_, at) =>
      2.1 / Math.sqrt(at + 1))]);
    assert.deepEqual(columns[3].filter((value) => value !== null),
      [4.2, ...[40, 80, 120].map((step) => 1.2 * 2.1 / Math.sqrt(step))]);
    assertDrawn(drawn);
    const text = await page.evaluate(() => document.body.innerText);
    for (const part of ["moods", "SUCCEEDED", "120 of 120", "on battery",
      "the worker died", "Confusion matrix", "Predictions", "abab", "cdcd"]) {
      assert.ok(text.includes(part), `the page does not say ${part}`);
    }
    assert.ok(!text.includes("no peak is lost"), "nothing is left out");
    return page;
  },

  async "along tokens and time, and logarithmic, too"() {
    const page = await open("axes", [run("01RUN")]);
    for (const [axis, last] of [["tokens", 1200], ["time", 152]]) {
      await page.select(".controls select", axis);
      await settled(page);
      const drawn = await charts(page);
      assert.equal(drawn.loss.columns[0].at(-1), last);
      assertDrawn(drawn);
    }
    await page.click(".controls input");
    await settled(page);
    assertDrawn(await charts(page));
    if (pictures) await page.screenshot({path: path.join(pictures, "time.png")});
    return page;
  },

  async "several runs are compared"() {
    const page = await open("compared", [run("01A"), run("01B", {rate: 0.004,
      steps: 70, name: "faster"}), run("01C", {rate: 0.01, steps: 40})]);
    const drawn = await charts(page);
    assert.equal(drawn.loss.columns.length, 7);
    assert.equal(drawn.learning_rate.columns.length, 4);
    assertDrawn(drawn);
    const text = await page.evaluate(() => document.body.innerText);
    assert.ok(text.includes("training.learning_rate"));
    assert.ok(!text.includes("training.seed"));
    return page;
  },

  async "hostile texts are text"() {
    const page = await open("hostile", [hostileRun(), run("01B")]);
    const one = await open("hostile-alone", [hostileRun()]);
    for (const each of [page, one]) {
      assert.equal(await each.evaluate(() => window.hit), undefined);
      assert.equal(await each.evaluate(() =>
        document.querySelectorAll("img").length), 0);
      assert.deepEqual(each.complaints, []);
      assert.ok((await each.evaluate(() => document.body.innerText))
        .includes("<img src=x"));
    }
    // A manifest of another shape takes its own part away.
    const odd = hostileRun();
    odd.files["run.json"] = JSON.stringify({environment: 3, model: {sha256: 3},
      train: {sha256: {toString: 3}}, attention: {training: 5},
      device_description: {toString: 3}});
    odd.job.spec_json = '{"model": {"toString": 3}, "a": ' +
      `${"[".repeat(5000)}${"]".repeat(5000)}}`;
    const other = await open("hostile-manifest", [odd]);
    assert.ok((await other.evaluate(() => document.body.innerText))
      .includes("Predictions"));
    assert.deepEqual(other.complaints, []);
    await other.close();
    const drawn = await charts(one);
    assert.match(drawn.loss.note, /marked ✕: NaN, infinite/);
    await one.close();
    return page;
  },

  async "what is left out is shown"() {
    const thinned = run("01RUN");
    thinned.left_out = {steps: 999880, evaluations: 0, events: 3,
      log_bytes: 5000000};
    const page = await open("thinned", [thinned]);
    const text = await page.evaluate(() => document.body.innerText);
    for (const part of ["120 of the 1,000,000 steps", "no peak is lost",
      "3 of the oldest notes", "without the 4.77 MiB"]) {
      assert.ok(text.includes(part), `the page does not say ${part}`);
    }
    return page;
  },

  async "dark"() {
    const page = await open("dark", [run("01RUN")], {scheme: "dark"});
    assertDrawn(await charts(page));
    const background = () => page.evaluate(() =>
      getComputedStyle(document.body).backgroundColor);
    assert.equal(await background(), "rgb(20, 23, 26)");
    await page.click("header button");
    await settled(page);
    assert.equal(await background(), "rgb(255, 255, 255)");
    assertDrawn(await charts(page));
    return page;
  },

  async "on a phone nothing is wider than the screen"() {
    const page = await open("phone", [run("01RUN"), run("01B", {rate: 0.01})],
      {width: 360, height: 740});
    assert.equal(await page.evaluate(() =>
      document.documentElement.scrollWidth), 360);
    assertDrawn(await charts(page));
    return page;
  },

  async "on paper it is light and as wide as the paper"() {
    const page = await open("paper", [run("01RUN")], {scheme: "dark"});
    await page.evaluate(() => addEventListener("beforeprint", () =>
      queueMicrotask(() => {
        window.printed = [document.documentElement.dataset.theme,
          window.mpsdRunPage.charts.drawn.plots[0].uplot.width];
      })));
    const pdf = await page.pdf({format: "A4"});
    if (pictures) fs.writeFileSync(path.join(pictures, "paper.pdf"), pdf);
    assert.ok(pdf.length > 20000);
    assert.deepEqual(await page.evaluate(() => window.printed), ["light", 660]);
    await settled(page);
    assert.notEqual(await page.evaluate(() =>
      document.documentElement.dataset.theme), "light");
    assertDrawn(await charts(page));
    return page;
  },

  async "a run without a step, and no run, have a page"() {
    const queued = await open("queued", [{job: {id: "01Q",
      state: "JOB_STATE_QUEUED"}, events: [], log: "", files: {}}]);
    assert.ok((await queued.evaluate(() => document.body.innerText))
      .includes("No step yet."));
    for (const [name, text] of [["none", '{"runs": []}'], ["list", "[]"],
      ["broken", "{"], ["empty", ""]]) {
      const page = await open(name, text);
      assert.ok((await page.evaluate(() => document.body.innerText))
        .includes("This file has no run."));
      assert.deepEqual(page.complaints, []);
      await page.close();
    }
    return queued;
  },

  async "a script that is not the page's own does not run"() {
    const page = await open("policy", [run("01RUN")]);
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.hit = 1";
      document.body.append(script);
    });
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(page.complaints.length, 1);
    page.complaints.length = 0;
    return page;
  },
};

let failures = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    const page = await test();
    assert.deepEqual(page.complaints, []);
    await page.close();
    console.log(`ok    ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
}
await browser.close();
fs.rmSync(folder, {recursive: true});
process.exit(failures === 0 ? 0 : 1);
