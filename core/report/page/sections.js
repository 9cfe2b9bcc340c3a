// SPDX-License-Identifier: Apache-2.0
"use strict";

// The parts of the page other than the charts.

const MOST_SAMPLES = 100;      // rows of predictions shown
const MOST_MATRIX_LABELS = 40; // rows of a confusion matrix shown
const MOST_TABLE_ROWS = 500;

function stateBadge(run) {
  return element("span", {class: "state", "data-state": run.state},
    stateText(run));
}

function lossText(run) {
  const {eval_loss_before: before, eval_loss_after: after} = run.job;
  const texts = [];
  if (before !== undefined) texts.push(numberText(toNumber(before)));
  if (after !== undefined) texts.push(numberText(toNumber(after)));
  return texts.join(" → ");
}

// From one of the job's times to its end; "" while either is unknown.
function lengthText(run, begin) {
  const length = toSeconds(run.job.end_time) - toSeconds(run.job[begin]);
  return Number.isNaN(length) ? "" : durationText(length);
}

function largest(steps, name) {
  let most = null;
  for (const step of steps) {
    if (step[name] !== null && !(step[name] <= most)) most = step[name];
  }
  return most;
}

function memoryText(run) {
  for (const [name, what] of [["peak_allocated_bytes", "allocated"],
    ["footprint_bytes", "process"]]) {
    const most = largest(run.steps, name);
    if (most !== null) return `${bytesText(most)} (${what})`;
  }
  return "";
}

// The most important [name, text] pairs.
function keyNumbers(run) {
  const last = run.steps.at(-1);
  const progress = run.job.progress ?? {};
  const total = toNumber(progress.total_steps);
  const step = toNumber(progress.step);
  const best = run.job.best_evaluation;
  const speed = meanSpeed(run);
  return [
    ["step", total > 0 ? `${countText(step)} of ${countText(total)}` : ""],
    ["ETA", run.state === "RUNNING" && run.job.progress
      ? durationText(toNumber(progress.eta_seconds)) : ""],
    ["elapsed", run.state === "RUNNING" && last ? durationText(last.seconds)
      : ""],
    ["loss", last ? numberText(last.loss) : ""],
    ["mean loss", run.job.train_loss === undefined ? ""
      : numberText(toNumber(run.job.train_loss))],
    ["evaluation loss", lossText(run)],
    ["best evaluation", best ? `${numberText(toNumber(best.eval_loss))} ` +
      `at step ${countText(toNumber(best.step))}` : ""],
    ...Object.entries(run.job.metrics ?? {}).sort().slice(0, 8).map(
      ([name, value]) => [name, numberText(toNumber(value))]),
    ["total time", lengthText(run, "create_time")],
    ["last attempt took", lengthText(run, "start_time")],
    ["tok/s, mean", speed === null ? "" : numberText(speed)],
    ["memory, peak", memoryText(run)],
  ];
}

function whatItIs(run) {
  const {job} = run;
  return [
    ["id", run.id],
    ["owner", job.owner ?? ""],
    ["labels", Object.entries(job.labels ?? {}).sort().map(([name, value]) =>
      `${name}=${value}`).join(", ")],
    ["created", timeText(job.create_time)],
    ["started", timeText(job.start_time)],
    ["ended", timeText(job.end_time)],
    ["attempts", job.attempt ? String(job.attempt) : ""],
    ["last attempt", job.exit_reason ?? ""],
    ["device", valueText(run.manifest?.device_description ||
      job.progress?.device || "")],
    ["model", valueText(run.spec?.model_id ?? run.spec?.model ?? "")],
  ];
}

function overview(run) {
  const {message, warnings} = run.job;
  return element("section", {class: "overview"},
    element("h2", {}, runTitle(run), " ", stateBadge(run)),
    message ? element("p", {class: "message"}, message) : null,
    ...(warnings ?? []).map((text) => element("p", {class: "warning"}, text)),
    element("div", {class: "tiles"}, keyNumbers(run)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => element("div", {class: "tile"},
        element("span", {}, name), element("strong", {}, value)))),
    facts(whatItIs(run)));
}

// A failure's first line says why; the end of the worker's log follows.
function firstLine(text) {
  return text.split("\n", 1)[0].replace(/; its log ends:$/, "");
}

function markRows(run) {
  return run.marks.map((mark) => {
    const length = mark.endSeconds === undefined ? ""
      : durationText(mark.endSeconds - mark.seconds);
    return [mark.kind, countText(mark.step), durationText(mark.seconds),
      length, firstLine(mark.text)];
  });
}

function interruptions(run) {
  if (run.marks.length === 0) return null;
  return section("Pauses and restarts", table(
    ["what", "after step", "at", "for", "why"],
    markRows(run).slice(-MOST_TABLE_ROWS)));
}

function evaluationTable(run) {
  if (run.evaluations.length === 0) return null;
  const names = [...new Set(run.evaluations.flatMap((evaluation) =>
    Object.keys(evaluation.metrics)))].sort();
  const rows = run.evaluations.slice(-MOST_TABLE_ROWS).map((evaluation) => [
    countText(evaluation.step), numberText(evaluation.eval_loss),
    ...names.map((name) => name in evaluation.metrics
      ? numberText(evaluation.metrics[name]) : "–")]);
  return section("Evaluations", table(["step", "loss", ...names], rows,
    {class: "numbers"}));
}

// Rows are true labels, columns predicted ones; a cell is as dark as its share
// of the row.
function confusionTable(run) {
  if (!run.confusion) return null;
  const {labels, matrix} = run.confusion;
  const shown = labels.slice(0, MOST_MATRIX_LABELS).map(String);
  const rows = shown.map((label, row) => {
    const sum = matrix[row].reduce((a, b) => a + toNumber(b), 0);
    return element("tr", {}, element("th", {scope: "row"}, label),
      ...shown.map((_, column) => {
        const count = toNumber(matrix[row][column]);
        const cell = element("td", {class: row === column ? "right" : "wrong"},
          countText(count));
        const share = sum > 0 ? count / sum : 0;
        cell.style.setProperty("--share", `${Math.round(70 * share)}%`);
        return cell;
      }));
  });
  return section("Confusion matrix",
    element("p", {class: "note"}, "A row for each true label, a column for " +
      "each predicted one" + (shown.length < labels.length
        ? `; the first ${shown.length} of ${countText(labels.length)} labels`
        : "") + "."),
    element("div", {class: "scroll"}, element("table", {class: "confusion"},
      element("thead", {}, element("tr", {},
        element("th", {scope: "col"}, "true \\ predicted"),
        ...shown.map((label) => element("th", {scope: "col"}, label)))),
      element("tbody", {}, ...rows))));
}

function scoresText(scores) {
  if (scores === null || typeof scores !== "object") return "";
  return Object.entries(scores).sort((a, b) => b[1] - a[1]).slice(0, 5)
    .map(([label, score]) => `${label} ${numberText(toNumber(score))}`)
    .join(", ");
}

function sampleTable(run) {
  if (run.samples.length === 0) return null;
  const rows = run.samples.slice(0, MOST_SAMPLES).map((sample) => [
    valueText(sample.index), valueText(sample.prediction),
    scoresText(sample.scores)]);
  return section("Predictions", element("p", {class: "note"},
    `The first ${countText(rows.length)} rows of dataset.predict.`),
    table(["row", "prediction", "scores"], rows));
}

// A prompt's text, or what the last message of a chat says.
function promptText(prompt) {
  return typeof prompt === "string" ? prompt
    : valueText(prompt?.messages?.at(-1)?.content ?? "");
}

function answerTable(run) {
  if (run.answers.length === 0) return null;
  const prompts = run.spec?.training?.sample_prompts ?? [];
  return section("What the model says", table(
    ["step", ...prompts.map(promptText)],
    run.answers.slice(-MOST_TABLE_ROWS).map(({step, texts}) =>
      [step === 0 ? "before" : countText(step), ...texts]),
    {class: "answers"}));
}

function checkpointTable(run) {
  if (run.checkpoints.length === 0) return null;
  return section("Checkpoints", table(["step", "at", "size", "on mpsd's machine"],
    run.checkpoints.slice(-MOST_TABLE_ROWS).map((checkpoint) => [
      countText(checkpoint.step), durationText(checkpoint.seconds),
      bytesText(toNumber(checkpoint.size_bytes)), checkpoint.path ?? ""])));
}

// {"train": "540c…", "model: config.json": "9505…"}
function hashRows(manifest) {
  const rows = [];
  for (const part of ["train", "eval"]) {
    const {sha256, rows: count, tokens} = manifest[part] ?? {};
    if (!sha256) continue;
    rows.push([part, count === undefined ? "" : countText(count),
      tokens === undefined ? "" : countText(tokens), valueText(sha256)]);
  }
  for (const [file, hash] of Object.entries(manifest.model?.sha256 ?? {})) {
    rows.push([`model: ${file}`, "", "", valueText(hash)]);
  }
  return rows;
}

function environment(run) {
  const {manifest} = run;
  if (!manifest) return null;
  const text = (value) => value === undefined || value === null ? ""
    : valueText(value);
  return section("Environment and data", facts([
    ["mpsd", text(manifest.mpsd_version)],
    ["torch", text(manifest.torch_version)],
    ["system", text(manifest.operating_system)],
    ["processor", text(manifest.processor)],
    ["device", text(manifest.device_description)],
    ["number type", text(manifest.dtype)],
    ["seed", text(manifest.seed)],
    ["gradients", text(manifest.gradients)],
    ["attention", text(manifest.attention?.training?.forward)],
    ["trainable parameters", manifest.trainable_parameters === undefined ? ""
      : countText(toNumber(manifest.trainable_parameters))],
    ["resumed at steps", Array.isArray(manifest.resumed_at_steps)
      ? manifest.resumed_at_steps.join(", ") : ""],
  ]),
  table(["data", "rows", "tokens", "SHA-256"], hashRows(manifest),
    {class: "hashes"}),
  folded("Variables of the environment", table([],
    Object.entries(manifest.environment ?? {}).map(([name, value]) =>
      [name, valueText(value)]))),
  folded("The whole manifest (run.json)",
    preformatted(JSON.stringify(manifest, null, 2))));
}

function hyperparameterTable(run) {
  // The manifest's length is at most the positions of the model.
  const rows = hyperparameters(run.spec).map(([field, value]) =>
    [field, field === "training.max_length"
      ? valueText(run.manifest?.max_length ?? value) : value]);
  return rows.length === 0 ? null
    : section("Hyperparameters", table([], rows));
}

function specSection(run) {
  if (!run.spec) return null;
  return section("Job", folded("job.json with every default",
    preformatted(JSON.stringify(run.spec, null, 2))));
}

function noteLines(run) {
  return run.notes.map(({time, text}) => `${timeText(time)}  ${text}`);
}

function logSection(run) {
  if (run.log === "" && run.notes.length === 0) return null;
  return section("Log",
    run.notes.length === 0 ? null : folded("What mpsd noted",
      preformatted(noteLines(run).join("\n"))),
    run.log === "" ? null : folded(toNumber(run.leftOut.log_bytes) > 0
      ? "The end of the log, without the " +
        `${bytesText(toNumber(run.leftOut.log_bytes))} ` +
        "before it" : "The log", preformatted(run.log)));
}

// All that is shown of a run other than its charts and its overview.
function detailSections(run) {
  const parts = [hyperparameterTable, interruptions, evaluationTable,
    answerTable, confusionTable, sampleTable, environment, specSection, checkpointTable,
    logSection];
  return parts.map((part) => partOrNote(part, run))
    .filter((made) => made !== null);
}

// A file in an unexpected format affects only its own part of the page.
function partOrNote(part, shown) {
  try {
    return part(shown);
  } catch (error) {
    return element("p", {class: "note"}, `A part cannot be shown: ${error}`);
  }
}

function comparisonTable(runs) {
  const names = [];
  const columns = runs.map((run) => {
    const pairs = [["state", stateText(run)], ...keyNumbers(run),
      ...whatItIs(run)];
    for (const [name, value] of pairs) {
      if (value !== "" && !names.includes(name)) names.push(name);
    }
    return new Map(pairs);
  });
  return table(["", ...runs.map(runTitle)], names.map((name) =>
    [name, ...columns.map((column) => column.get(name) || "–")]));
}

function differenceTable(runs) {
  const rows = specDifferences(runs);
  return section("Differences of the jobs", rows.length === 0
    ? element("p", {class: "note"}, "Their job.json are equal.")
    : table(["field", ...runs.map(runTitle)],
      rows.map(({field, values}) => [field, ...values])));
}

// What this file omits of mpsd's data.
function leftOutText(runs) {
  const texts = [];
  for (const run of runs) {
    const [steps, evaluations, events] = ["steps", "evaluations", "events"]
      .map((what) => toNumber(run.leftOut[what]));
    for (const [count, kept, what] of [
      [steps, run.steps.length, "steps"],
      [evaluations, run.evaluations.length, "evaluations"]]) {
      if (!(count > 0)) continue;
      texts.push(`${runTitle(run)}: ${countText(kept)} of the ` +
        `${countText(kept + count)} ${what} that mpsd has are in this file. ` +
        "Of each stretch of steps it keeps the first and the last one, and " +
        "the one with the least and the greatest value of each curve: no " +
        "peak is lost.");
    }
    if (events > 0) {
      texts.push(`${runTitle(run)}: ${countText(events)} of the oldest notes ` +
        "and checkpoints are left out.");
    }
  }
  return texts;
}
