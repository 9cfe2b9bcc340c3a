// SPDX-License-Identifier: Apache-2.0
"use strict";

// Draws the queue and the jobs, and redraws them every few seconds. Texts of
// jobs only ever become text nodes.

const PERIOD_MS = 5000;
const PAGE_SIZE = 50;

function element(tag, attributes, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...content);
  return made;
}

async function ask(path) {
  const answer = await fetch(path, {signal: AbortSignal.timeout(20000)});
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

// --- texts -------------------------------------------------------------------

function durationText(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  const hours = Math.floor(whole / 3600);
  if (hours < 48) return `${hours}h${two(Math.floor(whole % 3600 / 60))}m`;
  return `${Math.floor(hours / 24)}d`;
}

// 64-bit and non-finite numbers are strings in this JSON.
function numberText(value) {
  if (value === undefined) return "";
  const number = Number(value);
  return Number.isFinite(number) ? String(Number(number.toPrecision(5)))
    : String(value);
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = Number(bytes);
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit += 1) value /= 1024;
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

function secondsSince(time) {
  return (Date.now() - Date.parse(time)) / 1000;
}

// "JOB_STATE_QUEUED" without its prefix.
function stateText(state) {
  return String(state ?? "").replace("JOB_STATE_", "");
}

function reasonsText(pause) {
  return (pause.reasons ?? []).map((reason) => String(reason)
    .replace("PAUSE_REASON_", "").replaceAll("_", " ").toLowerCase()).join(", ");
}

// Why a job waits, or how it ended.
function messageText(job) {
  const texts = [];
  if (job.queue_position !== undefined) {
    texts.push(job.queue_position === 0 ? "next"
      : `${job.queue_position} ahead of it`);
  }
  if (job.pause) texts.push(`paused: ${reasonsText(job.pause)}`);
  if (job.hold) texts.push(job.hold);
  if (job.cancel_requested && stateText(job.state) === "RUNNING") {
    texts.push("cancelling");
  }
  if (job.message) texts.push(job.message);
  return texts.join("; ");
}

// --- drawing -----------------------------------------------------------------

function drawFacts(info) {
  const counts = `${info.running_jobs ?? 0} running, ${info.queued_jobs ?? 0} ` +
    "queued";
  const memory = info.memory?.footprint_bytes;
  const facts = [
    ["version", info.version],
    ["up", info.start_time && durationText(secondsSince(info.start_time))],
    ["device", info.device],
    ["jobs", counts],
    ["on hold", info.hold],
    ["paused", info.pause && reasonsText(info.pause)],
    ["worker's memory", memory && bytesText(memory)],
    ["disk free", info.disk_free_bytes && bytesText(info.disk_free_bytes)],
  ];
  document.getElementById("facts").replaceChildren(...facts
    .filter(([, value]) => value)
    .map(([name, value]) => element("div", {}, element("dt", {}, name),
      element("dd", {}, value))));
}

function jobRow(job) {
  const state = stateText(job.state);
  const isPaused = state === "RUNNING" && job.pause?.held;
  const progress = job.progress ?? {};
  const steps = progress.step === undefined ? ""
    : `${progress.step}/${progress.total_steps ?? "?"}`;
  const running = state === "RUNNING";
  const bar = running && progress.total_steps ? element("progress",
    {value: progress.step ?? 0, max: progress.total_steps}) : "";
  const eta = running && progress.eta_seconds !== undefined
    ? durationText(Number(progress.eta_seconds)) : "";
  const link = element("a", {href: `/jobs/${encodeURIComponent(job.id)}`,
    title: job.id}, job.name || job.id);
  const cell = (name, ...parts) => element("td", {class: "number",
    "data-name": name}, ...parts);
  return element("tr", {}, element("td", {}, link),
    element("td", {class: state}, isPaused ? "PAUSED" : state),
    cell("step", steps, bar),
    cell("loss", numberText(progress.loss)),
    cell("eval", numberText(job.eval_loss_after)), cell("ETA", eta),
    cell("owner", job.owner ?? ""),
    cell("age", job.create_time ? durationText(secondsSince(job.create_time))
      : ""),
    element("td", {}, messageText(job)));
}

// `running`: the jobs that run, which come first on the first page.
function drawJobs(running, list, pageToken) {
  const first = pageToken === null ? running : [];
  const rest = (list.jobs ?? []).filter((job) =>
    !first.some((one) => one.id === job.id));
  document.getElementById("jobs").replaceChildren(
    ...[...first, ...rest].map(jobRow));
  const older = document.getElementById("older");
  older.hidden = !list.next_page_token;
  older.href = `/?${new URLSearchParams({page_token:
    list.next_page_token ?? ""})}`;
  document.getElementById("newest").hidden = pageToken === null;
}

function say(text, isBad) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.className = isBad ? "bad" : "";
}

async function refresh() {
  const pageToken = new URLSearchParams(location.search).get("page_token");
  const query = new URLSearchParams({page_size: PAGE_SIZE});
  if (pageToken !== null) query.set("page_token", pageToken);
  try {
    const [info, running, list] = await Promise.all([ask("/api/info"),
      ask("/api/jobs?states=JOB_STATE_RUNNING"), ask(`/api/jobs?${query}`)]);
    drawFacts(info);
    drawJobs(running.jobs ?? [], list, pageToken);
    say(`as of ${new Date().toLocaleTimeString()}`, false);
  } catch (error) {
    say(`mpsd does not answer: ${error.message}`, true);
  }
}

// A hidden page sends no requests.
async function keepFresh() {
  if (!document.hidden) await refresh();
  setTimeout(keepFresh, PERIOD_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
keepFresh();
