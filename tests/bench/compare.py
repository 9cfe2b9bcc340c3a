#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole LoRA steps, ours and PEFT's in turn on the same device.

    compare.py BIN [--device cpu|cuda] [--rounds N] [--only ROW …] [--compile]

BIN holds step_bench; run with a Python that has transformers and peft. Prints
a table: tokens per second and peak memory of each, and the ratio of the step
times (ours / theirs, the median of the rounds' ratios).
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SEVEN = "--shape llama7b --dtype bf16 --seq 1024 --mb 4 --accum 2 --steps 5"
SMOL = "--shape smol135m --dtype bf16 --seq 512 --steps 10"
# Name, device, arguments of both, of ours alone, of theirs alone.
ROWS = [
    ("7b", "cuda", SEVEN, "", ""),
    ("7b-all-linears", "cuda", SEVEN + " --targets all", "", ""),
    ("7b-checkpointing", "cuda", SEVEN, "--checkpointing inputs",
     "--checkpointing"),
    ("7b-as-on-mps", "cuda", SEVEN, "--kernels mps", ""),
    ("qwen0.5b", "cuda",
     "--shape qwen0.5b --dtype bf16 --seq 512 --mb 8 --accum 1 --steps 10",
     "", ""),
    ("smol-1x8", "cuda", SMOL + " --mb 1 --accum 8", "", ""),
    ("smol-8x1", "cuda", SMOL + " --mb 8 --accum 1", "", ""),
    ("cpu-smol-1x4", "cpu",
     "--shape smol135m --seq 256 --mb 1 --accum 4 --steps 3", "", ""),
    ("cpu-tiny", "cpu",
     "--shape tiny --seq 128 --mb 4 --accum 2 --steps 20", "", ""),
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [l for l in done.stdout.splitlines() if l.startswith("{")]
    if done.returncode or not lines:
        print(" ".join(map(str, command)), "\n", done.stderr[-2000:],
              file=sys.stderr)
        return None
    return json.loads(lines[-1])


def measure(args, common, mine, theirs):
    """A result a round for us and for each peer, in turn."""
    runs = {"mpsd": [], "peft": []}
    device = ["--device", args.device]
    peft = [sys.executable, HERE / "peft_step.py"]
    for _ in range(args.rounds):
        runs["mpsd"].append(run(
            [args.bin / "step_bench", *device, *common.split(),
             *mine.split()]))
        runs["peft"].append(run(
            [*peft, *device, *common.split(), *theirs.split()]))
        if args.compile:
            runs.setdefault("peft+compile", []).append(run(
                [*peft, *device, *common.split(), *theirs.split(),
                 "--compile"]))
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    for name, device, common, mine, theirs in ROWS:
        if device != args.device or (args.only and name not in args.only):
            continue
        runs = measure(args, common, mine, theirs)
        cells = []
        for peer, results in runs.items():
            done = [r for r in results if r]
            if not done:
                cells.append(f"{peer} failed")
                continue
            speed = statistics.median(r["tok_s"] for r in done)
            memory = max(r["peak_alloc_gib"] for r in done)
            cell = f"{peer} {speed:,.0f} tok/s"
            if memory:
                cell += f" {memory:.1f} GiB"
            pairs = [(a["step_s"], b["step_s"])
                     for a, b in zip(runs["mpsd"], results) if a and b]
            if peer != "mpsd" and pairs:
                ratio = statistics.median(a / b for a, b in pairs)
                cell += f" (ours takes {ratio:.2f} of it)"
            elif peer == "mpsd":
                cell += f" {done[0]['aten_calls']:,} calls"
            cells.append(cell)
        print(f"{name:18}" + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
