#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a job's memory stays where it is once it is warm, out of its
metrics.jsonl: what the device's driver holds for the process, and the process'
footprint. After the warm-up the last fifth of the steps may hold no more than
the first fifth did, except for a share of it; medians of both, so that a peak is no
growth.

usage: memory_plateau.py METRICS.JSONL [--warm-up STEPS] [--share SHARE]
"""

import argparse
import json
import statistics
import sys

FIELDS = ["driver_allocated_bytes", "footprint_bytes"]
# A page cache of shaders, a log: not per step.
ALWAYS_ALLOWED = 16 << 20


def series(lines, field):
    """(step, bytes) of the lines that have the field."""
    rows = [json.loads(line) for line in lines if line.strip()]
    return [(row["step"], row["memory"][field]) for row in rows
            if row.get("memory", {}).get(field) is not None]


def judge(points, warm_up, share):
    """(whether it is flat, a sentence). Raises ValueError for too few steps."""
    warm = [value for step, value in points if step > warm_up]
    part = len(warm) // 5
    if part < 5:
        raise ValueError(f"{len(points)} steps, of which {len(warm)} after the "
                         f"warm-up of {warm_up}: too few to judge")
    first = statistics.median(warm[:part])
    last = statistics.median(warm[-part:])
    allowed = max(share * first, ALWAYS_ALLOWED)
    text = (f"{first / 2**20:.1f} MiB after {warm_up} steps, "
            f"{last / 2**20:.1f} MiB at the end ({(last - first) / 2**20:+.1f}, "
            f"allowed {allowed / 2**20:+.1f}); peak "
            f"{max(v for _, v in points) / 2**20:.1f}")
    return last - first <= allowed, text


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("metrics")
    parser.add_argument("--warm-up", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.02)
    options = parser.parse_args(arguments)
    with open(options.metrics, encoding="utf-8") as file:
        lines = file.readlines()
    flat, judged = True, 0
    for field in FIELDS:
        points = series(lines, field)
        if not points:
            print(f"{field}: not counted on this device")
            continue
        try:
            good, text = judge(points, options.warm_up, options.share)
        except ValueError as error:
            print(f"{field}: {error}")
            return 1
        print(f"{field}: {'flat' if good else 'GROWS'}: {text}")
        judged += 1
        flat = flat and good
    return 0 if flat and judged else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
