// SPDX-License-Identifier: Apache-2.0
"use strict";

// Converts part of the run document to a run: what is drawn and shown of it.

// Beginnings of the notes by which mpsd reports pauses
// (server/jobs/attempt.cc).
const PAUSE_BEGINS = "paused: ";
const PAUSE_ENDS = "resumed after";
const PAUSE_ENDED = "goes on after a pause";  // in notes of earlier releases

// The object in `text`, or null.
function parsedObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function plainName(name, prefix) {
  return typeof name === "string" ? name.replace(prefix, "") : "";
}

// "quiet hours, user active"
function pauseReasons(pause) {
  return (pause.reasons ?? []).map((reason) =>
    plainName(reason, "PAUSE_REASON_").toLowerCase().replaceAll("_", " "))
    .join(", ");
}

// The state in words: "RUNNING", "PAUSED: quiet hours".
function stateText(run) {
  return run.state === "RUNNING" && run.job.pause?.held
    ? `PAUSED: ${pauseReasons(run.job.pause)}` : run.state || "unknown";
}

// The report of one optimizer step, with the step's position in the run.
//   tokens   trained on up to the step; approximate if steps are missing
//   seconds  since the job first ran, including pauses
function stepOf(progress, before, seconds) {
  const step = toNumber(progress.step);
  const memory = progress.memory ?? {};
  const tokens = toNumber(progress.tokens);
  return {
    step,
    // A missing step is assumed to equal this one.
    tokens: (before ? before.tokens : 0) +
      (step - (before ? before.step : 0)) * tokens,
    seconds,
    epoch: toNumber(progress.epoch),
    loss: toNumber(progress.loss),
    learning_rate: toNumber(progress.learning_rate),
    grad_norm: toNumber(progress.grad_norm),
    step_seconds: toNumber(progress.step_seconds),
    tokens_per_second: toNumber(progress.tokens_per_second),
    padding_ratio: toNumber(progress.padding_ratio, null),
    data_wait_ratio: toNumber(progress.data_wait_ratio, null),
    device_utilization_ratio: toNumber(progress.device_utilization_ratio, null),
    current_allocated_bytes: toNumber(memory.current_allocated_bytes, null),
    peak_allocated_bytes: toNumber(memory.peak_allocated_bytes, null),
    driver_allocated_bytes: toNumber(memory.driver_allocated_bytes, null),
    footprint_bytes: toNumber(memory.footprint_bytes, null),
    recommended_max_bytes: toNumber(memory.recommended_max_bytes, null),
    metrics: metricsOf(progress),
  };
}

function metricsOf(event) {
  const metrics = Object.create(null);  // names come from outside
  for (const [name, value] of Object.entries(event.metrics ?? {})) {
    metrics[name] = toNumber(value);
  }
  return metrics;
}

// Walks a job's events from the oldest to the latest. Steps repeated after an
// interruption count as they were the last time.
class EventWalk {
  constructor() {
    this.steps = [];
    this.evaluations = [];
    this.answers = [];  // to training.sample_prompts
    this.checkpoints = [];
    this.notes = [];
    this.marks = [];  // pauses and restarts
    this.begin = NaN;
    this.starts = 0;
    this.reason = "";
    this.pause = null;    // a mark without an end yet
    this.restart = null;  // a mark without a step yet
  }

  add(event) {
    const time = toSeconds(event.time);
    if (event.state) this.addState(event.state, time);
    if (event.progress) this.addStep(event.progress, time);
    if (event.evaluated) this.addEvaluation(event.evaluated, time);
    if (event.sampled) {
      const step = toNumber(event.sampled.step);
      while (this.answers.length > 0 && this.answers.at(-1).step >= step) {
        this.answers.pop();
      }
      this.answers.push({step, texts: event.sampled.completions ?? []});
    }
    if (event.checkpoint) {
      this.checkpoints.push({...event.checkpoint,
        step: toNumber(event.checkpoint.step), seconds: this.since(time)});
    }
    if (event.note) {
      this.addNote(event.note, time);
      this.notes.push({time: event.time, text: event.note});
    }
  }

  since(time) {
    if (Number.isNaN(this.begin)) this.begin = time;
    return time - this.begin;
  }

  last() {
    return this.steps.at(-1) ?? {step: 0, tokens: 0, seconds: 0};
  }

  addState(change, time) {
    const state = plainName(change.state, "JOB_STATE_");
    this.endPause(time);
    if (state === "RUNNING") {
      const {step, tokens} = this.last();
      const seconds = this.since(time);
      if (this.starts > 0) {
        this.restart = {kind: "restart", step, tokens, seconds,
          text: this.reason};
        this.marks.push(this.restart);
      }
      this.starts += 1;
    } else {
      this.reason = change.message ?? "";
    }
  }

  addNote(note, time) {
    if (note.startsWith(PAUSE_ENDS) || note.startsWith(PAUSE_ENDED)) {
      this.endPause(time);
    }
    if (!note.startsWith(PAUSE_BEGINS)) return;
    this.endPause(time);
    const {step, tokens} = this.last();
    this.pause = {kind: "pause", step, tokens, seconds: this.since(time),
      text: note.slice(PAUSE_BEGINS.length)};
    this.marks.push(this.pause);
  }

  // A pause that has not ended: its note may come after the last event that was
  // read.
  addPauseOf(job) {
    if (!job.pause?.held || this.pause) return;
    this.addNote(PAUSE_BEGINS + pauseReasons(job.pause),
      toSeconds(job.pause.since));
  }

  endPause(time) {
    if (this.pause) this.pause.endSeconds = this.since(time);
    this.pause = null;
  }

  addStep(progress, time) {
    const step = toNumber(progress.step);
    while (this.steps.length > 0 && this.steps.at(-1).step >= step) {
      this.steps.pop();
    }
    while (this.evaluations.length > 0 &&
           this.evaluations.at(-1).step >= step) {
      this.evaluations.pop();
    }
    if (this.restart) {
      this.restart.step = this.last().step;
      this.restart.tokens = this.last().tokens;
      this.restart = null;
    }
    this.steps.push(stepOf(progress, this.steps.at(-1), this.since(time)));
  }

  addEvaluation(evaluated, time) {
    const step = toNumber(evaluated.step);
    while (this.evaluations.length > 0 &&
           this.evaluations.at(-1).step >= step) {
      this.evaluations.pop();
    }
    this.evaluations.push({step, tokens: this.last().tokens,
      seconds: this.since(time), eval_loss: toNumber(evaluated.eval_loss),
      metrics: metricsOf(evaluated)});
  }
}

// The rows of a JSON Lines text, without a truncated last line.
function parsedLines(text) {
  return text.split("\n").map(parsedObject).filter((row) => row !== null);
}

// One of the document's runs, ready to be shown.
function readRun(entry) {
  const job = entry.job ?? {};
  const walk = new EventWalk();
  for (const event of entry.events ?? []) walk.add(event);
  walk.addPauseOf(job);
  const files = entry.files ?? {};
  return {
    id: job.id ?? "",
    name: job.name ?? "",
    state: plainName(job.state, "JOB_STATE_"),
    job,
    spec: parsedObject(job.spec_json ?? ""),
    manifest: parsedObject(files["run.json"] ?? ""),
    confusion: readConfusion(job.confusion_matrix_json ||
      files["confusion_matrix.json"]),
    samples: parsedLines(files["predictions.jsonl"] ?? ""),
    steps: walk.steps,
    evaluations: walk.evaluations,
    answers: walk.answers,
    checkpoints: walk.checkpoints,
    notes: walk.notes,
    marks: walk.marks,
    log: entry.log ?? "",
    leftOut: entry.left_out ?? {},
    files,
  };
}

// {labels, matrix} if the text has both and they match, else null.
function readConfusion(text) {
  const value = parsedObject(text ?? "");
  if (!value || !Array.isArray(value.labels) || !Array.isArray(value.matrix)) {
    return null;
  }
  const size = value.labels.length;
  const fits = value.matrix.length === size && value.matrix.every(
    (row) => Array.isArray(row) && row.length === size);
  return fits && size > 0 ? value : null;
}

// A run's title: its name and the end of its id.
function runTitle(run) {
  return run.name === "" ? run.id : `${run.name} …${run.id.slice(-4)}`;
}
