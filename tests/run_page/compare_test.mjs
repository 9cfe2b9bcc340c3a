// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";

import {scripts} from "./scripts.mjs";

const page = scripts();

test("fields of objects in objects have names with dots", () => {
  const flat = page.flattened({a: 1, b: {c: [1, 2], d: {e: null}}, f: {}});
  assert.deepEqual([...flat], [["a", 1], ["b.c", [1, 2]], ["b.d.e", null],
    ["f", {}]]);
});

test("only fields that differ are shown, with a value for each run", () => {
  const runs = [
    {id: "A", spec: {name: "x", training: {learning_rate: 0.1, seed: 1}}},
    {id: "B", spec: {name: "x", training: {learning_rate: 0.2, seed: 1},
      adapter: "p"}},
    {id: "C", spec: null}];
  assert.deepEqual(page.specDifferences(runs.slice(0, 2)).map((row) =>
    [row.field, ...row.values]), [
    ["adapter", "–", "p"], ["training.learning_rate", "0.1", "0.2"]]);
  assert.equal(page.specDifferences(runs).length, 4);
  assert.deepEqual(page.specDifferences([runs[0], runs[0]]), []);
});

test("hyperparameters are those that a spec has and its method reads", () => {
  const lora = {r: 16, target_modules: ["q_proj"]};
  const training = {learning_rate: 2e-4, packing: false, seed: null};
  const dataset = {train: "t.jsonl"};
  const quantization_config = {bnb_4bit_quant_type: "nf4"};
  assert.deepEqual(page.hyperparameters({dataset, lora, quantization_config,
    training}).flat(), ["lora.r", "16", "lora.target_modules", '["q_proj"]',
      "training.learning_rate", "0.0002"]);
  assert.deepEqual(page.hyperparameters({fine_tune_type: "head", lora}).flat(),
    ["fine_tune_type", "head"]);
  assert.deepEqual(page.hyperparameters(null), []);
});

test("the folder of a job makes no difference", () => {
  const of = (id, file) => ({id, spec: {dataset: {train:
    [`/state/jobs/${id}/inputs/data/${file}`]}}});
  assert.deepEqual(page.specDifferences([of("AA", "t"), of("BB", "t")]), []);
  assert.deepEqual(page.specDifferences([of("AA", "t"), of("BB", "u")])[0]
    .values, ['["data/t"]', '["data/u"]']);
});
