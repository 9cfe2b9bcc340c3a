#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of a training step on the CPU, ours against Transformers' Trainer.

    step_cost.py BIN MINILM SMOLLM2 TABLES DIGITS CHATS OUT [--only NAME]
                 [--rounds N] [--steps N] [--threads N]

BIN holds mpsd-worker, MINILM and SMOLLM2 are the folders of these models,
TABLES what make_tables.py wrote, DIGITS what tests/live/images/make_mnist.py
wrote, CHATS the demo's folder of conversations. Of every step two times: user
and system time of the whole process, which other work on the machine hardly
changes, and the clock's, which is worth something on an idle machine only.
Both sides in turn, N rounds; prints the median of the rounds' ratios. Every
batch holds the same few rows, so that it is equally long on both sides.

Passes when no case takes more CPU time than Trainer.
"""

import argparse
import csv
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

PATHS = ("bin", "minilm", "smollm2", "tables", "digits", "chats", "out")
WARM = 4  # steps that are not counted
LORA = {"r": 8, "lora_alpha": 16}
LENGTH = 128
# Rows of the tables, from their middle, that every batch is made of.
CHOSEN = range(40, 48)


def read_table(path, delimiter):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(
            file, delimiter=delimiter,
            quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL))


class Texts:
    """MiniLM on single sentences or pairs."""
    task, batch = "SEQ_CLS", 32
    lora = {"target_modules": ["query", "value"]}
    peft = {"task_type": "SEQ_CLS", "modules_to_save": ["classifier"]}

    def __init__(self, file, label, columns, delimiter):
        self.file, self.label, self.columns = file, label, columns
        self.delimiter = delimiter

    def rows(self, args):
        table = read_table(args.tables / self.file, self.delimiter)
        kept = [table[i] for i in CHOSEN]
        return [kept[i % len(kept)]
                for i in range(self.batch * (args.steps + WARM))]

    def job(self, args, folder, tuning):
        with open(folder / "rows.csv", "w", encoding="utf-8",
                  newline="") as file:
            writer = csv.writer(file)
            pair = len(self.columns) == 2
            writer.writerow([*(["sentence1", "sentence2"] if pair
                               else ["sentence"]), "label"])
            for row in self.rows(args):
                writer.writerow([*(row[c] for c in self.columns),
                                 row[self.label]])
        return {"model": str(args.minilm),
                "dataset": {"train": str(folder / "rows.csv")}}

    def theirs(self, args):
        import transformers as hf
        tokenizer = hf.AutoTokenizer.from_pretrained(args.minilm)
        rows = self.rows(args)
        names = sorted({row[self.label] for row in rows})
        data = [{**tokenizer(*(row[c] for c in self.columns), truncation=True,
                             max_length=LENGTH),
                 "labels": names.index(row[self.label])} for row in rows]
        model = hf.AutoModelForSequenceClassification.from_pretrained(
            args.minilm, num_labels=len(names), dtype="float32")
        return model, data, hf.DataCollatorWithPadding(tokenizer)


class Images:
    """ViT-tiny on digits."""
    task, batch = "IMAGE_CLS", 64
    lora = {"target_modules": ["q_proj", "v_proj"]}
    peft = {"modules_to_save": ["classifier"]}

    def job(self, args, folder, tuning):
        model = args.digits / "model"
        if tuning == "lora":  # an adapter has a base: one drawn once
            model = args.out / "vit"
            if not model.is_dir():
                self.theirs(args)[0].save_pretrained(model)
                name = "preprocessor_config.json"
                (model / name).write_bytes(
                    (args.digits / "model" / name).read_bytes())
        return {"model": str(model), "from_scratch": tuning == "full",
                "dataset": {"train": str(args.digits / "train.safetensors")},
                "augmentation": {"random_resized_crop": False,
                                 "horizontal_flip": 0}}

    def theirs(self, args):
        import torch
        import transformers as hf
        from safetensors.torch import load_file
        data = load_file(args.digits / "train.safetensors")
        pixels = (data["images"].unsqueeze(1).float() / 255 - 0.5) / 0.5
        rows = [{"pixel_values": image, "labels": int(label)}
                for image, label in zip(pixels, data["labels"])]
        torch.manual_seed(1)
        model = hf.AutoModelForImageClassification.from_config(
            hf.AutoConfig.from_pretrained(args.digits / "model"))
        return model, rows, None


class Chats:
    """SmolLM2 on the demo's conversations."""
    task, batch = "CAUSAL_LM", 4
    lora = {"target_modules": "all-linear"}
    peft = {"task_type": "CAUSAL_LM"}

    def rows(self, args):
        lines = (args.chats / "train.jsonl").read_text().splitlines()
        kept = [json.loads(line) for line in lines[:self.batch]]
        return kept * (args.steps + WARM)

    def job(self, args, folder, tuning):
        (folder / "rows.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in self.rows(args)))
        return {"model": str(args.smollm2),
                "dataset": {"train": str(folder / "rows.jsonl")}}

    def theirs(self, args):
        import chat
        import transformers as hf
        tokenizer = hf.AutoTokenizer.from_pretrained(args.smollm2)
        data = [chat.encode(tokenizer, row["messages"])
                for row in self.rows(args)]
        model = hf.AutoModelForCausalLM.from_pretrained(args.smollm2,
                                                        dtype="float32")
        return model, data, lambda rows: chat.collate(rows, 0)


KINDS = {
    "sentence": Texts("sentiment-train.csv", "label", ["text"], ","),
    "pair": Texts("pairs-train.tsv", "Quality", ["#1 String", "#2 String"],
                  "\t"),
    "image": Images(),
    "chat": Chats(),
}
CASES = [(kind, tuning) for kind in KINDS for tuning in ("full", "lora")]


def run_worker(kind, tuning, args, steps):
    """CPU seconds of the run, and the clock's of each of its steps."""
    folder = args.out / "ours"
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    job = kind.job(args, folder, tuning)
    job.update(task=kind.task, fine_tune_type=tuning, device="cpu", training={
        "max_steps": steps, "learning_rate": 1e-4, "save_steps": 0, "seed": 1,
        "per_device_train_batch_size": kind.batch,
        "train_sampling_strategy": "sequential"})
    if kind.task != "IMAGE_CLS":
        job["training"]["max_length"] = 256 if kind.task == "CAUSAL_LM" \
            else LENGTH
    if kind.task == "CAUSAL_LM":
        job["training"]["assistant_only_loss"] = True
    if tuning == "lora":
        job["lora"] = {**LORA, **kind.lora}
    (folder / "job.json").write_text(json.dumps(job))
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(
            [args.bin / "mpsd-worker", "--job", folder / "job.json", "--out",
             folder / "run"], stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"mpsd-worker failed: {(folder / 'log').read_text()}")
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return (usage.ru_utime + usage.ru_stime,
            [json.loads(line)["seconds"] for line in lines])


def ours(kind, tuning, args):
    """(CPU, clock) seconds a step: of the CPU, what more steps cost more."""
    short, _ = run_worker(kind, tuning, args, WARM)
    whole, steps = run_worker(kind, tuning, args, args.steps + WARM)
    return (whole - short) / args.steps, statistics.median(steps[WARM:])


def theirs(name, args):
    """In a process of its own, as ours is."""
    command = [sys.executable, "-B", __file__,
               *(getattr(args, p) for p in PATHS),
               "--steps", str(args.steps), "--theirs", name]
    answer = subprocess.run(command, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    if answer.returncode:
        sys.exit(answer.stderr)
    return tuple(map(float, answer.stdout.splitlines()[-1].split()))


def train_theirs(kind, tuning, args):
    import transformers as hf
    from peft import LoraConfig, get_peft_model

    class Cost(hf.TrainerCallback):
        cpu, clock, begun = [], [], 0.0

        def on_step_begin(self, *_, **__):
            self.begun = time.perf_counter()

        def on_step_end(self, *_, **__):
            self.clock.append(time.perf_counter() - self.begun)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self.cpu.append(usage.ru_utime + usage.ru_stime)

    model, rows, collator = kind.theirs(args)
    if tuning == "lora":
        model = get_peft_model(
            model, LoraConfig(**LORA, **kind.lora, **kind.peft))
    cost = Cost()
    hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=str(args.out / "theirs"), save_strategy="no",
            per_device_train_batch_size=kind.batch,
            max_steps=args.steps + WARM, learning_rate=1e-4, seed=1,
            train_sampling_strategy="sequential", report_to=[], use_cpu=True,
            logging_strategy="no", disable_tqdm=True),
        train_dataset=rows, data_collator=collator, callbacks=[cost]).train()
    print((cost.cpu[-1] - cost.cpu[WARM - 1]) / args.steps,
          statistics.median(cost.clock[WARM:]))


def report(name, what, pairs):
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:13} {what:5} seconds a step, ours / theirs: "
          + "  ".join(f"{a:.3f} / {b:.3f}" for a, b in pairs)
          + f"  median ratio {ratio:.3f}", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in PATHS:
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in PATHS:
        setattr(args, name, getattr(args, name).resolve())
    if args.theirs:
        kind, tuning = args.theirs.split("-")
        train_theirs(KINDS[kind], tuning, args)
        return
    os.environ["OMP_NUM_THREADS"] = args.threads
    args.out.mkdir(parents=True, exist_ok=True)
    slower = []
    for kind, tuning in CASES:
        name = f"{kind}-{tuning}"
        if args.only not in name:
            continue
        rounds = [(ours(KINDS[kind], tuning, args), theirs(name, args))
                  for _ in range(args.rounds)]
        ratio = report(name, "CPU", [(a[0], b[0]) for a, b in rounds])
        report(name, "clock", [(a[1], b[1]) for a, b in rounds])
        if ratio > 1:
            slower.append(name)
    sys.exit(f"slower than Transformers: {slower}" if slower else 0)


if __name__ == "__main__":
    main()
