#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole LoRA steps, ours and PEFT's in turn on the same device.

    compare.py BIN [--device cpu|cuda] [--rounds N] [--only ROW …] [--compile]

BIN holds step_bench; run with a Python that has transformers and peft. Prints
a table: tokens per second and peak memory of each, and the ratio of the step
times (ours / theirs, the median of all pairs). On the CPU, whose speed drifts,
both are up at once and take a step in turn; on a GPU a pair is a run of each.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

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
     "--shape smol135m --seq 256 --mb 1 --accum 4 --steps 8", "", ""),
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


def take_turns(commands):
    """The results of programs that are up at once and step in turn."""
    commands = list(commands)
    errors = [tempfile.TemporaryFile("w+") for _ in commands]
    peers = [subprocess.Popen([*c, "--turns"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=e, text=True)
             for c, e in zip(commands, errors)]
    results = [None] * len(peers)

    def until_ready(i):
        """Whether it waits for its next turn."""
        for line in peers[i].stdout:
            if line.strip() == "ready":
                return True
            if line.startswith('{"'):  # not the Trainer's own
                results[i] = json.loads(line)
        return False

    waiting = [i for i in range(len(peers)) if until_ready(i)]
    while waiting:
        for i in list(waiting):
            peers[i].stdin.write("\n")
            peers[i].stdin.flush()
            if not until_ready(i):
                waiting.remove(i)
    for command, peer, error, result in zip(commands, peers, errors, results):
        if peer.wait() or result is None:
            error.seek(0)
            print(" ".join(map(str, command)), "\n", error.read()[-2000:],
                  file=sys.stderr)
    return results


def measure(args, common, mine, theirs):
    """A result a round for us and for each peer, in turn."""
    both = ["--device", args.device, *common.split()]
    peft = [sys.executable, HERE / "peft_step.py", *both, *theirs.split()]
    commands = {"mpsd": [args.bin / "step_bench", *both, *mine.split()],
                "peft": peft}
    if args.compile:
        commands["peft+compile"] = [*peft, "--compile"]
    runs = {name: [] for name in commands}
    for _ in range(args.rounds):
        results = (take_turns(commands.values()) if args.device == "cpu"
                   else map(run, commands.values()))
        for name, result in zip(runs, results):
            runs[name].append(result)
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
            pairs = [pair for a, b in zip(runs["mpsd"], results) if a and b
                     for pair in zip(a.get("times", [a["step_s"]]),
                                     b.get("times", [b["step_s"]]))]
            if peer != "mpsd" and pairs:
                ratio = statistics.median(a / b for a, b in pairs)
                cell += f" (ours takes {ratio:.2f} of it)"
            elif peer == "mpsd":
                cell += f" {done[0]['aten_calls']:,} calls"
            cells.append(cell)
        print(f"{name:18}" + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
