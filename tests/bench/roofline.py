#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The roofline of `mpsctl plan` on this CPU against steps of real workers.

    roofline.py BIN [--threads N] [--steps N] [--only TEXT]

Each job is planned by `mpsd-worker --plan`, which measures this CPU's rates
(core/worker/verbs.h), and then trained for a few steps; prints the seconds
of a step by the plan, by the run (the median, without the first) and the error
in percent of the run's. Both use the machine as it is: run it on a quiet one.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/live/memory"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
import big_jobs  # noqa: E402

LLAMA = big_jobs.decoder("llama", 512, 1536, 4, 8, 4, 8192)
SMOLLM = big_jobs.decoder("llama", 576, 1536, 6, 9, 3, 16384)
BERT = big_jobs.encoder("bert", 384, 1536, 4, 12)
VIT = big_jobs.encoder("vit", 384, 1536, 4, 6)
FULL = {"fine_tune_type": "full", "lora": None}
JOBS = [
    # name, config, rows, length, job
    ("llama 512x4, LoRA", LLAMA, 4, 512, {}),
    ("llama 128x1, LoRA", LLAMA, 1, 128, {}),
    ("llama 1024x2, LoRA", LLAMA, 2, 1024, {}),
    ("llama 512x4, checkpointing", LLAMA, 4, 512,
     {"training": {"gradient_checkpointing": True}}),
    ("llama 512x4, full", LLAMA, 4, 512, FULL),
    ("smollm 256x4, LoRA", SMOLLM, 4, 256, {}),
    ("bert 128x32, full", BERT, 32, 128, FULL),
    ("vit 16 images, full", VIT, 16, 1, {**FULL, "from_scratch": True}),
]


def run(bin_dir, arguments, environment):
    done = subprocess.run([bin_dir / "mpsd-worker", *arguments],
                          env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(done.stdout[-2000:] + done.stderr)
    return done.stdout


def step_seconds(out):
    lines = (out / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    return [s["seconds"] for s in steps][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", default="", help="of jobs named so")
    args = parser.parse_args()
    import harness  # of tests/e2e
    errors = []
    for name, config, rows, length, changes in JOBS:
        if args.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="mpsd") as folder:
            folder = pathlib.Path(folder)
            environment = harness.environment(
                HOME=str(folder), OMP_NUM_THREADS=str(args.threads))
            job = big_jobs.write_job(folder / "job", config, rows, length,
                                     changes, steps=args.steps)
            line = run(args.bin, ["--plan", job], environment).splitlines()[-1]
            plan = json.loads(line)["plan"]
            out = folder / "out"
            run(args.bin, ["--job", job, "--out", out], environment)
            planned = plan["time"]["roofline_seconds_per_step"]
            measured = statistics.median(step_seconds(out))
        errors.append(100 * (planned / measured - 1))
        print(f"{name}: plan {planned:.3f} s, measured {measured:.3f} s, "
              f"{errors[-1]:+.1f} %", flush=True)
    print(f"median of the errors' sizes "
          f"{statistics.median(map(abs, errors)):.1f} %, "
          f"{plan['time']['rates']}")


if __name__ == "__main__":
    main()
