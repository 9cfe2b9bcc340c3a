// SPDX-License-Identifier: Apache-2.0
"use strict";

// Numbers of the run document (Protocol Buffers' JSON) and their texts.

// int64 comes as text, NaN and infinities as "NaN", "Infinity", "-Infinity"; a
// field that is 0 is omitted.
function toNumber(value, absent = 0) {
  if (value === undefined || value === null) return absent;
  return Number(value);
}

function toSeconds(timestamp) {
  return timestamp ? Date.parse(timestamp) / 1000 : NaN;
}

function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

// At most four significant digits, and 1e-5 rather than 0.00001.
function numberText(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) {
    const [digits, power] = value.toExponential(3).split("e");
    return `${trimmed(digits)}e${power.replace("+", "")}`;
  }
  if (size >= 1000) return countText(value);
  return trimmed(value.toPrecision(4));
}

// 12,345
function countText(value) {
  if (!Number.isFinite(value)) return String(value);
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// 1.46 KiB, 23.5 GiB; powers of 1,024, as base::BytesText
function bytesText(value) {
  if (!Number.isFinite(value)) return String(value);
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let scaled = value;
  let unit = 0;
  while (Math.abs(scaled) >= 1024 && unit + 1 < units.length) {
    scaled /= 1024;
    unit += 1;
  }
  return `${trimmed(scaled.toPrecision(Math.abs(scaled) >= 100 ? 4 : 3))} ` +
    units[unit];
}

// 850 ms, 3.2 s, 4 min 10 s, 3 h 5 min, 2 d 4 h
function durationText(seconds) {
  if (!Number.isFinite(seconds)) return String(seconds);
  if (seconds < 0) return `-${durationText(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${trimmed((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 59.95) return `${trimmed(seconds.toPrecision(3))} s`;
  const steps = [["s", 60], ["min", 60], ["h", 24], ["d", Infinity]];
  let rest = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of steps) {
    const here = size === Infinity ? rest : rest % size;
    parts.unshift(here > 0 ? `${here} ${unit}` : "");
    rest = size === Infinity ? 0 : Math.floor(rest / size);
    if (rest === 0) break;
  }
  return parts.slice(0, 2).filter((part) => part !== "").join(" ");
}

function shareText(value) {
  if (!Number.isFinite(value)) return String(value);
  return `${trimmed((100 * value).toPrecision(3))} %`;
}

// 2026-11-22 20:54:43, in the reader's time zone.
function timeText(timestamp) {
  const time = new Date(timestamp);
  if (Number.isNaN(time.getTime())) return "";
  const two = (value) => String(value).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-` +
    `${two(time.getDate())} ${two(time.getHours())}:` +
    `${two(time.getMinutes())}:${two(time.getSeconds())}`;
}
