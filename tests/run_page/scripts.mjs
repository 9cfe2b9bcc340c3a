// SPDX-License-Identifier: Apache-2.0
// Runs the page's scripts that need no browser, together as the page has them.

import fs from "node:fs";
import vm from "node:vm";

const FOLDER = new URL("../../core/report/page/", import.meta.url);
const NAMES = ["numbers.js", "run.js", "curves.js", "compare.js"];

// The scripts' functions and constants, each under its name.
export function scripts() {
  const text = NAMES.map((name) =>
    fs.readFileSync(new URL(name, FOLDER), "utf8")).join("\n");
  const names = [...text.matchAll(/^(?:function|const|class) (\w+)/gm)]
    .map((match) => match[1]);
  return vm.runInThisContext(
    `(() => {\n${text}\nreturn {${names.join(", ")}};\n})()`);
}

export function time(seconds) {
  return new Date(1767323045000 + 1000 * seconds).toISOString();
}

export function stateEvent(seconds, state, message = "") {
  return {time: time(seconds), state: {state: `JOB_STATE_${state}`, message}};
}

export function stepEvent(seconds, step, more = {}) {
  return {time: time(seconds), progress: {step: String(step),
    total_steps: "100", loss: 2 / step, learning_rate: 0.001, grad_norm: 1,
    tokens: "10", step_seconds: 0.5, tokens_per_second: 20,
    memory: {footprint_bytes: String(1e9 + step)}, ...more}};
}

export function evaluationEvent(seconds, step, loss, metrics = {}) {
  return {time: time(seconds), evaluated: {step: String(step),
    eval_loss: loss, metrics}};
}
