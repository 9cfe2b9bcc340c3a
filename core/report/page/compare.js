// SPDX-License-Identifier: Apache-2.0
"use strict";

// How the specs of runs differ.

// {"training.learning_rate": 0.001 …} of an object in objects. A list is one
// value.
function flattened(value, prefix = "", result = new Map()) {
  const isObject = value !== null && typeof value === "object" &&
    !Array.isArray(value);
  if (!isObject || (prefix !== "" && Object.keys(value).length === 0)) {
    if (prefix !== "") result.set(prefix, value);
    return result;
  }
  for (const [name, inner] of Object.entries(value)) {
    flattened(inner, prefix === "" ? name : `${prefix}.${name}`, result);
  }
  return result;
}

// Rows [field, value] of the fields of a spec that decide a result besides its
// model and data, without those that are absent or of another method.
function hyperparameters(spec) {
  const isLora = (spec?.fine_tune_type ?? "lora") === "lora";
  const isPreference = (spec?.preference?.trainer ?? "sft") !== "sft";
  const {load_in_4bit, load_in_8bit} = spec?.quantization_config ?? {};
  return [...flattened(spec ?? {})].filter(([field, value]) =>
    /^(task|fine_tune_type|lora|quantization_config|preference|training)\b/
      .test(field) &&
    (isLora || !field.startsWith("lora.")) &&
    (isPreference || !field.startsWith("preference.")) &&
    (load_in_4bit || load_in_8bit || !field.startsWith("quantization")) &&
    !["null", "false", '""', "[]", "{}"].includes(JSON.stringify(value)))
    .map(([field, value]) => [field, valueText(value)]);
}

// How a table shows a value of the spec.
function valueText(value) {
  if (value === undefined || value === null) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Rows {field, values} of the fields in which the specs are not all equal, by
// name; one value per run. Uploaded files are in the folder of their job:
// without the folder, the same file of two jobs is equal.
function specDifferences(runs) {
  const flat = runs.map((run) => flattened(withoutFolder(run.spec ?? {},
    run.id)));
  const fields = [...new Set(flat.flatMap((map) => [...map.keys()]))].sort();
  return fields
    .map((field) => ({field, values: flat.map((map) =>
      valueText(map.get(field)))}))
    .filter(({values}) => values.some((value) => value !== values[0]));
}

function withoutFolder(value, id) {
  if (typeof value === "string" && id !== "") {
    const at = value.indexOf(`/${id}/inputs/`);
    return at < 0 ? value : value.slice(at + id.length + "//inputs/".length);
  }
  if (Array.isArray(value)) return value.map((part) => withoutFolder(part, id));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) =>
    [name, withoutFolder(inner, id)]));
}
