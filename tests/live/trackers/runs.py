# SPDX-License-Identifier: Apache-2.0
"""A run of the real worker for the tests of trackers: killed in the middle and
taken up again, with a record that the kill cut short."""

import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import harness

STEPS = 400


def interrupted_run(folder):
    """The run's folder."""
    harness.write_model(folder / "model")
    job = harness.write_job(folder, training={
        "max_steps": STEPS, "save_steps": 50, "eval_steps": 50,
        "learning_rate": 0.001})
    out = folder / "out"
    command = [str(harness.BIN / "mpsd-worker"), "--job", str(job), "--out",
               str(out)]
    first = subprocess.Popen(command, env=harness.environment(),
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + harness.TIMEOUT
    while len(lines(out / "metrics.jsonl")) < 120:
        if first.poll() is not None or time.monotonic() > deadline:
            raise AssertionError("the worker does not train")
        time.sleep(0.005)
    first.kill()
    first.wait()
    events, = (out / "runs").iterdir()
    with open(events, "r+b") as file:
        file.truncate(events.stat().st_size - 7)
    subprocess.run(command, env=harness.environment(), check=True,
                   capture_output=True, timeout=harness.TIMEOUT)
    assert len(list((out / "runs").iterdir())) == 2
    return out


def lines(path):
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def expected(out):
    """{tag: [(step, value)…]} of some curves, by the run's own logs."""
    metrics, evals = (lines(out / name) for name in ("metrics.jsonl",
                                                     "eval.jsonl"))
    assert [m["step"] for m in metrics] == list(range(1, STEPS + 1))
    return {
        **{f"train/{name}": [(m["step"], m[name]) for m in metrics]
           for name in ("loss", "learning_rate", "grad_norm", "epoch")},
        "train/step_seconds": [(m["step"], m["seconds"]) for m in metrics],
        "train/tokens_per_second": [(m["step"], m["tokens"] / m["seconds"])
                                    for m in metrics],
        "memory/footprint_bytes": [(m["step"], m["memory"]["footprint_bytes"])
                                   for m in metrics],
        "eval/loss": [(e["step"], e["eval_loss"]) for e in evals],
        "eval/perplexity": [(e["step"], e["eval_perplexity"]) for e in evals]}


def check_same(case, wanted, got, what):
    """Each step once; values as 32-bit floats keep them."""
    case.assertEqual([step for step, _ in wanted], [step for step, _ in got],
                     what)
    for (step, a), (_, b) in zip(wanted, got):
        case.assertLessEqual(abs(a - b), 1e-6 * abs(a), f"{what}, step {step}")
