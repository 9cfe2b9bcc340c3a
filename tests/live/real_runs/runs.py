# SPDX-License-Identifier: Apache-2.0
"""What the real runs share: our worker, the clock of theirs, the verdict."""

import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import transformers as hf


def arguments(parser, *paths, seeds=3):
    """Adds the `paths`, --seeds and --device; returns the parsed arguments."""
    for name in paths:
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = parser.parse_args()
    for name in paths:
        setattr(args, name, getattr(args, name).resolve())
    hf.logging.set_verbosity_error()
    return args


class StepTimes(hf.TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.start)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_worker(binary, job, folder):
    """Runs the job afresh; the folder of the run within `folder`."""
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(job, indent=1))
    with open(folder / "log", "w") as log:
        done = subprocess.run(
            [binary / "mpsd-worker", "--job", folder / "job.json", "--out",
             folder / "run"], stdout=log, stderr=log)
    if done.returncode:
        sys.exit(f"{folder}: {(folder / 'log').read_text()}")
    return folder / "run"


def ours(args, job, name, metric):
    """The metric at the end of our run, and its median step."""
    run = run_worker(args.bin, job, args.out / name)
    return (lines(run / "eval.jsonl")[-1][metric],
            statistics.median(s["seconds"] for s in lines(run / "metrics.jsonl")))


def theirs(trainer_class, metric, **arguments_):
    """The same of a run of Transformers' Trainer."""
    steps = StepTimes()
    trainer = trainer_class(callbacks=[steps], **arguments_)
    trainer.train()
    return trainer.evaluate()[metric], statistics.median(steps.times)


def training_arguments(args, **more):
    return hf.TrainingArguments(
        output_dir=str(args.out / "trainer"), save_strategy="no", report_to=[],
        use_cpu=args.device == "cpu", logging_strategy="no", disable_tqdm=True,
        **more)


def accuracy(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def spread(values):
    return max(values) - min(values)


def compare(args, name, run_ours, run_theirs, what="accuracy", least=0.01,
            lower_is_better=False):
    """Both sides with every seed, in turn. A line of figures, and (whether our
    mean is no worse than theirs by more than the larger of both spreads, or
    `least`; the figures)."""
    runs = {"ours": [], "theirs": []}
    for seed in range(1, args.seeds + 1):
        runs["ours"].append(run_ours(seed))
        runs["theirs"].append(run_theirs(seed))
    metric = {k: [m for m, _ in v] for k, v in runs.items()}
    seconds = {k: statistics.median(s for _, s in v) for k, v in runs.items()}
    allowed = max(spread(metric["ours"]), spread(metric["theirs"]), least)
    worse = statistics.mean(metric["theirs"]) - statistics.mean(metric["ours"])
    if lower_is_better:
        worse = -worse
    ok = worse <= allowed
    values = {k: " ".join(f"{m:.4f}" for m in v) for k, v in metric.items()}
    print(f"{name:16} {what} ours {values['ours']}  Transformers "
          f"{values['theirs']}  step {seconds['ours']:.4f} / "
          f"{seconds['theirs']:.4f} s = "
          f"{seconds['ours'] / seconds['theirs']:.2f}"
          f"{'' if ok else '  WORSE'}", flush=True)
    return ok, {"metric": metric, "seconds": seconds}
