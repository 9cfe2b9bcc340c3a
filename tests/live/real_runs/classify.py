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
import sys

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

import runs

BATCH, RATE = 32, {"full": 5e-5, "lora": 5e-4}
LORA = {"r": 8, "lora_alpha": 16, "target_modules": ["query", "value"]}


def read(path, pairs):
    with open(path, encoding="utf-8", newline="") as file:
        if pairs:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [((r["#1 String"], r["#2 String"]), r["Quality"])
                    for r in rows]
        return [((r["text"],), r["label"]) for r in csv.DictReader(file)]


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

    return runs.theirs(
        hf.Trainer, "eval_accuracy", model=model,
        args=runs.training_arguments(
            args, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=64, num_train_epochs=args.epochs,
            learning_rate=RATE[case["tuning"]], seed=seed),
        train_dataset=encode(train), eval_dataset=encode(evaluation),
        data_collator=hf.DataCollatorWithPadding(tokenizer),
        compute_metrics=runs.accuracy)


def ours(case, args, seed):
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
    return runs.ours(args, job, f"{case['name']}-{seed}", "eval_accuracy")


def cases(tables):
    for name, pairs, ending in (("sentiment", False, "csv"),
                                ("pairs", True, "tsv")):
        files = {k: tables / f"{name}-{k}.{ending}" for k in ("train", "eval")}
        for tuning in ("full", "lora"):
            yield {"name": f"{name}-{tuning}", "pairs": pairs,
                   "files": files, "tuning": tuning}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--only", default="")
    args = runs.arguments(parser, "bin", "model", "tables", "out")
    report, failed = {}, []
    for case in cases(args.tables):
        if args.only not in case["name"]:
            continue
        ok, report[case["name"]] = runs.compare(
            args, case["name"], lambda seed, c=case: ours(c, args, seed),
            lambda seed, c=case: theirs(c, args, seed))
        if not ok:
            failed.append(case["name"])
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    sys.exit(f"worse than Transformers: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
