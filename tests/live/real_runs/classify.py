#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real runs of text classification, ours against Transformers' Trainer.

    classify.py BIN MODEL TABLES OUT [--seeds N] [--epochs E] [--only NAME]
                [--device cpu|cuda]

BIN holds mpsd-worker, MODEL is the MiniLM folder, TABLES what make_tables.py
wrote. Each case (sentiment and pairs, full and LoRA) runs with N seeds on both
sides in turn, on the same files. Passes when our mean metric is not below
theirs by more than the spread of the seeds (the larger of both sides' ranges),
and prints metrics and the ratio of the median step times, and writes OUT/
report.json.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

BATCH, RATE = 32, {"full": 5e-5, "lora": 5e-4}
LORA = {"r": 8, "lora_alpha": 16, "target_modules": ["query", "value"]}


def read(path, pairs):
    with open(path, encoding="utf-8", newline="") as file:
        if pairs:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [((r["#1 String"], r["#2 String"]), r["Quality"])
                    for r in rows]
        return [((r["text"],), r["label"]) for r in csv.DictReader(file)]


class StepTimes(hf.TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.start)


def theirs(case, args, seed):
    hf.set_seed(seed)
    tokenizer = hf.AutoTokenizer.from_pretrained(args.model)
    train, evaluation = (read(case["files"][k], case["pairs"])
                         for k in ("train", "eval"))
    names = sorted({label for _, label in train})
    model = hf.AutoModelForSequenceClassification.from_pretrained(
        args.model, num_labels=len(names), dtype=torch.float32)
    if case["tuning"] == "lora":
        model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", **LORA))

    def encode(rows):
        return [{**tokenizer(*texts, truncation=True, max_length=128),
                 "labels": names.index(label)} for texts, label in rows]

    steps = StepTimes()
    trainer = hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=str(args.out / "trainer"), save_strategy="no",
            per_device_train_batch_size=BATCH, per_device_eval_batch_size=64,
            num_train_epochs=args.epochs, learning_rate=RATE[case["tuning"]],
            seed=seed, report_to=[], use_cpu=args.device == "cpu",
            logging_strategy="no", disable_tqdm=True),
        train_dataset=encode(train), eval_dataset=encode(evaluation),
        data_collator=hf.DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda p: {
            "accuracy": float(
                (p.predictions.argmax(-1) == p.label_ids).mean())},
        callbacks=[steps])
    trainer.train()
    return trainer.evaluate()["eval_accuracy"], statistics.median(steps.times)


def ours(case, args, seed):
    out = args.out / f"{case['name']}-{seed}"
    subprocess.run(["rm", "-rf", out], check=True)
    dataset = {k: str(v) for k, v in case["files"].items()}
    if case["pairs"]:
        dataset["task_name"] = "mrpc"
    job = {"model": str(args.model), "task": "SEQ_CLS", "dataset": dataset,
           "fine_tune_type": case["tuning"],
           "training": {"per_device_train_batch_size": BATCH,
                        "per_device_eval_batch_size": 64,
                        "num_train_epochs": args.epochs, "max_length": 128,
                        "learning_rate": RATE[case["tuning"]], "seed": seed,
                        "save_steps": 0},
           "device": args.device}
    if case["tuning"] == "lora":
        job["lora"] = LORA
    out.mkdir(parents=True)
    (out / "job.json").write_text(json.dumps(job, indent=1))
    subprocess.run([args.bin / "mpsd-worker", "--job", out / "job.json",
                    "--out", out / "run"], check=True,
                   stdout=open(out / "log", "w"))
    last = json.loads((out / "run/eval.jsonl").read_text().splitlines()[-1])
    times = [json.loads(line)["seconds"] for line in
             (out / "run/metrics.jsonl").read_text().splitlines()]
    return last["eval_accuracy"], statistics.median(times)


def cases(tables):
    for name, pairs, ending in (("sentiment", False, "csv"),
                                ("pairs", True, "tsv")):
        files = {k: tables / f"{name}-{k}.{ending}" for k in ("train", "eval")}
        for tuning in ("full", "lora"):
            yield {"name": f"{name}-{tuning}", "pairs": pairs,
                   "files": files, "tuning": tuning}


def spread(values):
    return max(values) - min(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("tables", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = parser.parse_args()
    for name in ("bin", "model", "tables", "out"):
        setattr(args, name, getattr(args, name).resolve())
    hf.logging.set_verbosity_error()
    report, failed = {}, []
    for case in cases(args.tables):
        if args.only not in case["name"]:
            continue
        runs = {"ours": [], "theirs": []}
        for seed in range(1, args.seeds + 1):
            runs["ours"].append(ours(case, args, seed))
            runs["theirs"].append(theirs(case, args, seed))
        metric = {k: [m for m, _ in v] for k, v in runs.items()}
        seconds = {k: statistics.median(s for _, s in v)
                   for k, v in runs.items()}
        allowed = max(spread(metric["ours"]), spread(metric["theirs"]), 0.01)
        ok = (statistics.mean(metric["ours"]) >=
              statistics.mean(metric["theirs"]) - allowed)
        if not ok:
            failed.append(case["name"])
        report[case["name"]] = {"metric": metric, "seconds": seconds}
        print(f"{case['name']:16} accuracy ours "
              f"{' '.join(f'{m:.4f}' for m in metric['ours'])}  Transformers "
              f"{' '.join(f'{m:.4f}' for m in metric['theirs'])}  step "
              f"{seconds['ours']:.4f} / {seconds['theirs']:.4f} s = "
              f"{seconds['ours'] / seconds['theirs']:.2f}"
              f"{'' if ok else '  WORSE'}", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    sys.exit(f"worse than Transformers: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
