#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Useful tokens per second on texts of varied lengths, ours against PEFT's.

    varied_lengths.py BIN MODEL OUT [--device cpu|cuda] [--rounds N]
                      [--batch N] [--steps N]

BIN holds mpsd-worker, MODEL is a causal LM's folder; run with a Python that
has transformers and peft. The texts are the docstrings of Transformers itself:
real prose, from one line to hundreds. LoRA on every linear, fp32, rows cut at
512 tokens. Theirs is what Trainer does by itself, random batches padded to
their longest row; ours the same batches laid side by side (padding_free), and
packed. A useful token is one that is no padding. Both sides in turn, N rounds;
prints the tokens per second of each and the median ratio.
"""

import argparse
import ast
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

LENGTH, WARM = 512, 2
LORA = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}


def docstrings():
    """Of every module of Transformers, in a fixed random order."""
    texts = []
    for path in sorted(pathlib.Path(hf.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    texts.append(text)
    random.Random(1).shuffle(texts)
    return texts


class Texts(torch.utils.data.Dataset):
    def __init__(self, model, texts):
        tokenizer = hf.AutoTokenizer.from_pretrained(model)
        self.rows = [tokenizer(t + tokenizer.eos_token, truncation=True,
                               max_length=LENGTH)["input_ids"] for t in texts]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]}


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {"input_ids": [], "attention_mask": [], "labels": []}
    for row in rows:
        ids = row["input_ids"]
        padding = longest - len(ids)
        batch["input_ids"].append(ids + [0] * padding)
        batch["attention_mask"].append([1] * len(ids) + [0] * padding)
        batch["labels"].append(ids + [-100] * padding)
    return {name: torch.tensor(value) for name, value in batch.items()}


def theirs(args):
    """In a process of its own: (useful tokens, seconds, padded tokens)."""
    class Clock(hf.TrainerCallback):
        seconds, begun = [], 0.0

        def on_step_begin(self, *_, **__):
            self.begun = time.perf_counter()

        def on_step_end(self, *_, **__):
            if args.device == "cuda":
                torch.cuda.synchronize()
            self.seconds.append(time.perf_counter() - self.begun)

    tokens = []

    def counting(rows):
        batch = collate(rows)
        tokens.append((int(batch["attention_mask"].sum()),
                       batch["input_ids"].numel()))
        return batch

    rows = (args.steps + WARM) * args.batch
    model = get_peft_model(
        hf.AutoModelForCausalLM.from_pretrained(args.model,
                                                dtype=torch.float32),
        LoraConfig(task_type="CAUSAL_LM", **LORA))
    clock = Clock()
    hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=str(args.out / "theirs"), save_strategy="no",
            per_device_train_batch_size=args.batch, num_train_epochs=1,
            learning_rate=1e-4, report_to=[], use_cpu=args.device == "cpu",
            logging_strategy="no", disable_tqdm=True),
        train_dataset=Texts(args.model, docstrings()[:rows]),
        data_collator=counting, callbacks=[clock]).train()
    useful, cells = map(sum, zip(*tokens[WARM:]))
    print(json.dumps([useful, sum(clock.seconds[WARM:]), cells]))


def run_theirs(args):
    done = subprocess.run([sys.executable, "-B", *sys.argv, "--theirs"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def run_ours(args, layout):
    folder = args.out / "ours"
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    rows = (args.steps + WARM) * args.batch
    (folder / "rows.jsonl").write_text("".join(
        json.dumps({"text": t}) + "\n" for t in docstrings()[:rows]))
    (folder / "job.json").write_text(json.dumps(
        {"model": str(args.model), "device": args.device, "lora": LORA,
         "dataset": {"train": str(folder / "rows.jsonl")},
         "training": {"per_device_train_batch_size": args.batch,
                      "num_train_epochs": 1, "learning_rate": 1e-4,
                      "max_length": LENGTH, "save_steps": 0, **layout}}))
    done = subprocess.run(
        [args.bin / "mpsd-worker", "--job", folder / "job.json", "--out",
         folder / "run"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    steps = [json.loads(line) for line in
             (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    # A packed run has fewer steps: what is left of them after two.
    return [sum(s[name] for s in steps[WARM:])
            for name in ("tokens", "seconds", "padded_tokens")]


LAYOUTS = {
    "padded": {"padding_free": False},
    "side by side": {"padding_free": True},
    # Rows are full then: the same tokens in a step need fewer of them.
    "packed": {"packing": True, "per_device_train_batch_size": 4},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("bin", "model", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--theirs", action="store_true",
                        help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("bin", "model", "out"):
        setattr(args, name, getattr(args, name).resolve())
    if args.theirs:
        theirs(args)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    rates = {"PEFT": [], **{name: [] for name in LAYOUTS}}
    for _ in range(args.rounds):
        results = {"PEFT": run_theirs(args)}
        results.update({name: run_ours(args, layout)
                        for name, layout in LAYOUTS.items()})
        for name, (useful, seconds, cells) in results.items():
            rates[name].append(useful / seconds)
            print(f"{name:13} {useful} useful of {cells} tokens, "
                  f"{useful / seconds:.0f} a second", flush=True)
    for name in LAYOUTS:
        ratio = statistics.median(
            a / b for a, b in zip(rates[name], rates["PEFT"]))
        print(f"{name:13} {ratio:.2f} times PEFT's useful tokens a second")


if __name__ == "__main__":
    main()
