#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The golden cases on a device: logits, loss, every gradient and twenty
training steps of each family by parity_probe, against Transformers' and PEFT's
numbers on the CPU (tests/golden). Prints the worst of each kind.

usage: device_parity.py PARITY_PROBE [--device D] [--tensor T] [--losses L]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4",
         "U8": "u1", "BOOL": "?"}


def load(path):
    """A safetensors file: 8 bytes of length, a JSON header, the bytes."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size:]
    return {name: numpy.frombuffer(
        body[slice(*entry["data_offsets"])],
        TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()}


def relative(ours, theirs):
    if ours.shape != theirs.shape:
        return float("inf")
    ours, theirs = ours.astype("f8"), theirs.astype("f8")
    scale = numpy.linalg.norm(theirs)
    distance = numpy.linalg.norm(ours - theirs)
    return float(distance / scale if scale else distance)


class Case:
    """A golden file, how to ask the probe for it, and what it expects."""

    def __init__(self, name, folder, about, expected, training, *options):
        self.name, self.folder, self.expected = name, folder, expected
        self.training = training
        self.options = ["--model", folder / about.get("model", "model"),
                        *options]

    def compute(self, probe, device, out):
        (out / "training.json").write_text(json.dumps(self.training))
        run = subprocess.run(
            [probe, *self.options, "--device", device, "--training",
             out / "training.json", "--output", out / "ours.safetensors"],
            text=True, capture_output=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip()[-2000:] or
                               f"parity_probe ended with {run.returncode}")
        return load(out / "ours.safetensors")


def texts(folder, name):
    """golden.json (an adapter) or full.json of a language model."""
    about = json.loads((folder / name).read_text())
    golden = folder / about["golden"]
    adapter = (["--adapter", folder / about["adapter"]]
               if "adapter" in about else [])
    return Case(f"{folder.name}/{name}", folder, about, load(golden),
                about["training"], "--inputs", golden, *adapter)


def classes(folder, run):
    """The run "lora" or "full" of a classifier; its answers are RUN.NAME."""
    about = json.loads((folder / "classes.json").read_text())
    golden = folder / "classes.safetensors"
    expected = {name.removeprefix(f"{run}."): value
                for name, value in load(golden).items()}
    head = json.dumps(about["head"])
    adapter = ["--adapter", folder / "adapter"] if run == "lora" else []
    return Case(f"{folder.name}/{run}", folder, about, expected,
                about["training"][run], "--inputs", golden, "--head", head,
                *adapter)


def cases():
    for folder in sorted(p for p in GOLDEN.iterdir() if p.is_dir()):
        for name in ("golden.json", "full.json"):
            if (folder / name).exists():
                yield texts(folder, name)
        if (folder / "classes.json").exists():
            yield classes(folder, "lora")


def differences(ours, expected):
    """(kind, what, error): the kinds that are compared, no others."""
    rows = expected.get("attention_mask")
    for name, theirs in expected.items():
        kind = name.split(".")[0]
        if kind == "logits" and name == "logits":
            mine = ours.get(name)
            if (mine is not None and rows is not None
                    and mine.shape[:2] == rows.shape):
                # Logits at padding mean nothing.
                mine, theirs = mine[rows > 0], theirs[rows > 0]
        elif name == "loss" or kind == "grad":
            mine = ours.get(name)
        elif name == "train.losses":
            mine, kind = ours.get(name), "losses"
        else:
            continue
        if mine is None:
            yield kind, name, float("inf")
        elif kind == "losses":
            yield kind, name, float(numpy.max(numpy.abs(mine / theirs - 1)))
        else:
            yield kind, name, relative(mine, theirs)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tensor", type=float, default=1e-5)
    parser.add_argument("--losses", type=float, default=1e-4)
    options = parser.parse_args(arguments)
    worst, failures, count, done = {}, [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            try:
                ours = case.compute(options.probe, options.device,
                                    pathlib.Path(folder))
            except RuntimeError as error:
                failures.append(f"{case.name}: {error}")
                continue
            done += 1
            for kind, name, error in differences(ours, case.expected):
                count += 1
                limit = (options.losses if kind == "losses" else
                         options.tensor)
                if not error <= limit:  # catches NaN
                    failures.append(f"{case.name} {name}: {error:.2e}, at "
                                    f"most {limit:.0e}")
                if not error <= worst.get(kind, (-1,))[0]:
                    worst[kind] = (error, f"{case.name} {name}")
    print(f"{done} cases on {options.device}, {count} comparisons, "
          f"{len(failures)} failed")
    for kind, (error, where) in sorted(worst.items()):
        print(f"  {kind:8} {error:.2e}  {where}")
    for failure in failures[:20]:
        print(f"FAILED {failure}")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
