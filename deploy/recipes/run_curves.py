# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a run: metrics.jsonl, eval.jsonl and run.json, whose
members client/README.md lists."""

import json
import pathlib


def manifest(folder):
    return json.loads((pathlib.Path(folder) / "run.json").read_text())


def flat(object, prefix=""):
    """The (path, value) pairs of job.json, without empty values."""
    for key, value in object.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        elif value not in (None, [], {}):
            yield f"{prefix}{key}", value


def _lines(path):
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the run is writing it
            return


def _numbers(object, group):
    """By the names of mpsd's curves in TensorBoard. A non-finite loss is null
    and has no point."""
    return {f"{group}/{'step_seconds' if key == 'seconds' else key}": value
            for key, value in object.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            and key not in ("step", "total_steps")
            and not key.endswith("tokens")}


def curves(folder):
    """(step, {name: value}) pairs, ordered by step."""
    steps = {}
    for line in _lines(pathlib.Path(folder) / "metrics.jsonl"):
        values = steps.setdefault(line["step"], {})
        values.update(_numbers(line, "train"))
        values.update(_numbers(line["memory"], "memory"))
        if line["seconds"] > 0:
            values["train/tokens_per_second"] = line["tokens"] / line["seconds"]
    for line in _lines(pathlib.Path(folder) / "eval.jsonl"):
        values = steps.setdefault(line["step"], {})
        renamed = {key.removeprefix("eval_"): value
                   for key, value in line.items()}
        seconds = renamed.pop("seconds")
        values.update(_numbers(renamed, "eval"))
        values["eval/seconds"] = seconds
    return sorted(steps.items())
