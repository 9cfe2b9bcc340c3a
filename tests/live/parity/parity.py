# SPDX-License-Identifier: Apache-2.0
"""Runs parity_probe and holds what it says against the oracle."""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
# Threads that spin while they wait slow a busy machine down for all, us too.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "golden"))

from safetensors.torch import load_file

import oracle

# The issue's: logits, loss and every gradient, as L2 of the difference over L2
# of the expected tensor; and the losses of twenty steps.
TENSOR = 1e-5
LOSSES = 1e-4


def binary(folder, name):
    path = pathlib.Path(folder, name)
    if not path.is_file():
        sys.exit(f"parity: no {path}: build the target {name} first")
    return path


def relative(ours, theirs):
    if ours.shape != theirs.shape:
        return float("inf")
    scale = theirs.double().norm().item()
    distance = (ours.double() - theirs.double()).norm().item()
    return distance / scale if scale else distance


def in_double(batch):
    return {name: value.double() if value.is_floating_point() else value
            for name, value in batch.items()}


class Report:
    """Counts comparisons; `close` says how every failed one failed."""

    def __init__(self, title):
        self.title, self.count, self.failures, self.worst = title, 0, [], {}

    def less(self, what, kind, value, tolerance):
        self.count += 1
        if value > self.worst.get(kind, (-1.0, ""))[0]:
            self.worst[kind] = (value, what)
        if not value <= tolerance:  # catches NaN
            self.failures.append(f"{what}: {value:.3e} > {tolerance:.0e}")

    def same(self, what, ours, theirs):
        self.count += 1
        if ours != theirs:
            self.failures.append(f"{what}: {ours!r} is not {theirs!r}")

    def tensors(self, where, ours, theirs, tolerance=TENSOR, exact=None):
        """Every tensor of `theirs`, and no gradient beyond them. `exact()`
        gives `theirs` computed in fp64: a sum that cancels leaves more than
        `tolerance` of rounding in fp32. Ours is then held to the exact one,
        within three times what the oracle's own fp32 loses at most there."""
        in_fp64 = None
        for name, value in theirs.items():
            kind, bound = name.split(".")[0], tolerance
            if name not in ours:
                self.less(f"{where} {name} (missing)", kind, float("inf"), 0)
                continue
            distance = relative(ours[name], value)
            if distance > tolerance and exact is not None:
                in_fp64 = in_fp64 or exact()
                kind += " (fp64)"
                distance = relative(ours[name], in_fp64[name])
                bound = max(tolerance, 3 * max(relative(v, in_fp64[n])
                                               for n, v in theirs.items()))
            self.less(f"{where} {name}", kind, distance, bound)
        extra = {n for n in ours if n.startswith("grad.")} - set(theirs)
        self.same(f"{where} extra gradients", sorted(extra), [])

    def losses(self, where, ours, theirs):
        self.same(f"{where} steps", len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs), start=1):
            self.less(f"{where} loss of step {step}", "losses",
                      abs(a - b) / max(abs(b), 1e-9), LOSSES)

    def close(self):
        worst = ", ".join(f"{kind} {value:.1e}"
                          for kind, (value, _) in self.worst.items())
        print(f"{self.title}: {self.count} comparisons, worst: {worst}")
        for failure in self.failures[:40]:
            print("  FAILED", failure)
        return not self.failures


def finish(reports):
    results = [report.close() for report in reports]
    if not any(report.count for report in reports):
        sys.exit("parity: nothing was compared")
    sys.exit(0 if all(results) else 1)


def random_models(all_cases, check, vary, rounds=2, program="parity_probe"):
    """The main of a suite: each case, varied at random, `rounds` times, with
    one of our programs.

    check(report, program, name, case, chance, folder) compares one model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rounds", type=int, default=rounds)
    options = parser.parse_args()
    print("seed", options.seed)
    program = binary(options.bin, program)
    chance = random.Random(options.seed)
    reports = []
    for name, case in all_cases.items():
        report = Report(name)
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                check(report, program, name, vary(case, chance), chance,
                      pathlib.Path(folder))
        reports.append(report)
    finish(reports)


# How gradients come about: as a job gets them, by autograd, and by the kernels
# that MPS gets.
WAYS = ("auto", "autograd", "mps")


def probe(program, model, adapter, tensors, training=None, seed=None,
          head=None, draw_seed=None, gradients="auto"):
    """What our C++ computes: logits, loss, grad.*, train.*, final.*. Without an
    adapter the whole model is trained; with a head it is a classifier.
    `gradients`: one of WAYS."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        oracle.save_tensors(tensors, scratch / "in.safetensors")
        command = [str(program), "--model", str(model),
                   "--inputs", str(scratch / "in.safetensors"),
                   "--output", str(scratch / "out.safetensors"),
                   "--device", "cpu", "--gradients", gradients]
        if adapter:
            command += ["--adapter", str(adapter)]
        if head:
            command += ["--head", json.dumps(head)]
        if draw_seed is not None:
            command += ["--draw-seed", str(draw_seed)]
        if training:
            (scratch / "training.json").write_text(json.dumps(training))
            command += ["--training", str(scratch / "training.json")]
        if seed is not None:
            command += ["--dropout-seed", str(seed)]
        subprocess.run(command, check=True)
        return load_file(scratch / "out.safetensors")


def inputs(golden):
    """The tensors of a golden set that are input, not answer."""
    return {name: value for name, value in golden.items()
            if name.split(".")[-1] in INPUTS and not name.startswith("grad.")}


INPUTS = {"input_ids", "labels", "attention_mask", "token_type_ids",
          "position_ids", "sequence_ids", "lengths"}


def answers(golden):
    return {name: value for name, value in golden.items()
            if name.split(".")[0] in ("logits", "loss", "grad")}


def check_training(report, where, ours, golden):
    """Twenty steps: losses, norms, rates, and where the weights ended."""
    report.losses(where, ours["train.losses"].tolist(),
                  golden["train.losses"].tolist())
    rates = ours["train.learning_rates"], golden["train.learning_rates"]
    report.less(f"{where} learning rates", "rates", relative(*rates), 1e-6)
    norms = ours["train.grad_norms"], golden["train.grad_norms"]
    report.less(f"{where} gradient norms", "norms", relative(*norms), 1e-3)
    for name, value in golden.items():
        if name.startswith("final.") and not is_key_bias(name):
            report.less(f"{where} {name}", "final",
                        relative(ours[name], value), 1e-3)


def is_key_bias(name):
    """A key's bias shifts all scores of a query alike. Its gradient is the
    rounding of zero, of which Adam makes steps of full length; they change
    nothing."""
    return name.endswith(("key.bias", "k_lin.bias"))
