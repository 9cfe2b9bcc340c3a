// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";

import {scripts} from "./scripts.mjs";

const page = scripts();

test("numbers of Protocol Buffers' JSON", () => {
  assert.equal(page.toNumber("9007199254740993"), 9007199254740992);
  assert.equal(page.toNumber(undefined), 0);
  assert.equal(page.toNumber(undefined, null), null);
  assert.equal(page.toNumber(0.5), 0.5);
  assert.ok(Number.isNaN(page.toNumber("NaN")));
  assert.equal(page.toNumber("-Infinity"), -Infinity);
});

test("texts of numbers", () => {
  const cases = [[0, "0"], [0.5, "0.5"], [1.23456, "1.235"],
    [12345.6, "12,346"], [0.00001234, "1.234e-5"], [2e9, "2e9"],
    [-3.5, "-3.5"], [100, "100"], [NaN, "NaN"], [Infinity, "Infinity"]];
  for (const [value, text] of cases) {
    assert.equal(page.numberText(value), text);
  }
});

test("texts of counts, bytes, shares", () => {
  assert.equal(page.countText(1234567), "1,234,567");
  assert.equal(page.countText(7), "7");
  assert.equal(page.bytesText(0), "0 B");
  assert.equal(page.bytesText(999), "999 B");
  assert.equal(page.bytesText(1500), "1.46 KiB");
  assert.equal(page.bytesText(25276502016), "23.5 GiB");
  assert.equal(page.shareText(0.25), "25 %");
});

test("texts of durations", () => {
  const cases = [[0, "0 s"], [0.0215, "21.5 ms"], [1.5, "1.5 s"],
    [59.99, "1 min"], [250, "4 min 10 s"], [3600, "1 h"],
    [11100, "3 h 5 min"], [187200, "2 d 4 h"], [-5, "-5 s"],
    [86400 * 400, "400 d"], [NaN, "NaN"]];
  for (const [seconds, text] of cases) {
    assert.equal(page.durationText(seconds), text);
  }
});

test("an invalid time has no text", () => {
  assert.equal(page.timeText(undefined), "");
  assert.equal(page.timeText("<b>"), "");
  assert.match(page.timeText("2026-01-02T03:04:05Z"), /^2026-01-0\d \d\d:/);
});
