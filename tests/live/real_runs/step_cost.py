#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of a training step, ours against Transformers' Trainer.

    step_cost.py BIN MODEL TABLES DIGITS OUT [--only NAME] [--rounds N]
                 [--steps N] [--threads N]

BIN holds mpsd-worker, MODEL is the MiniLM folder, TABLES what make_tables.py
wrote, DIGITS what tests/live/images/make_mnist.py wrote. Counts user and system
time of the whole process, not time on the clock, so that other work on the
machine hardly matters; both sides in turn, N rounds, and prints the median of
the rounds' ratios. Every batch holds the same eight texts four times over, so
that it is equally long on both sides.

Passes when no case is above 1.
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

BATCH, IMAGES = 32, 64
WARM = 4  # steps that are not counted
LORA = {"r": 8, "lora_alpha": 16}
TEXT_TARGETS, IMAGE_TARGETS = ["query", "value"], ["q_proj", "v_proj"]
# Rows of the tables, from their middle, that every batch is made of.
CHOSEN = range(40, 48)


def cpu_seconds(usage):
    return usage.ru_utime + usage.ru_stime


def texts(args):
    """The chosen rows of the sentiment table, over and over."""
    with open(args.tables / "sentiment-train.csv", encoding="utf-8",
              newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [rows[i] for i in CHOSEN]
    return [kept[i % len(kept)] for i in range(BATCH * (args.steps + WARM))]


# --- ours --------------------------------------------------------------------

def job(case, args, folder, steps):
    training = {"max_steps": steps, "learning_rate": 1e-4, "save_steps": 0,
                "max_length": 128, "seed": 1}
    if case["task"] == "SEQ_CLS":
        rows = texts(args)
        with open(folder / "rows.csv", "w", encoding="utf-8",
                  newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows(rows)
        made = {"model": str(args.model),
                "dataset": {"train": str(folder / "rows.csv")}}
        training["per_device_train_batch_size"] = BATCH
    else:
        made = {"model": str(args.digits / "model"), "from_scratch": True,
                "dataset": {"train": str(args.digits / "train.safetensors")},
                "augmentation": {"random_resized_crop": False,
                                 "horizontal_flip": 0}}
        if case["tuning"] == "lora":
            made.update(model=str(args.out / "vit"), from_scratch=False)
        training["per_device_train_batch_size"] = IMAGES
    made.update(task=case["task"], fine_tune_type=case["tuning"],
                training=training, device="cpu")
    if case["tuning"] == "lora":
        made["lora"] = {**LORA, "target_modules": case["targets"]}
    return made


def run_worker(case, args, steps):
    folder = args.out / "ours"
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(
        json.dumps(job(case, args, folder, steps)))
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(
            [args.bin / "mpsd-worker", "--job", folder / "job.json", "--out",
             folder / "run"], stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"mpsd-worker failed: {(folder / 'log').read_text()}")
    return cpu_seconds(usage)


def ours(case, args):
    """Seconds a step: what more steps cost more."""
    return (run_worker(case, args, args.steps + WARM) -
            run_worker(case, args, WARM)) / args.steps


# --- theirs ------------------------------------------------------------------

def theirs(case, args):
    """In a process of its own, as ours is."""
    command = [sys.executable, "-B", __file__, args.bin, args.model,
               args.tables, args.digits, args.out, "--steps", str(args.steps),
               "--theirs", case["name"]]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    return float(answer.stdout.splitlines()[-1])


def their_texts(args):
    import torch
    import transformers as hf
    tokenizer = hf.AutoTokenizer.from_pretrained(args.model)
    rows = texts(args)
    names = sorted({row["label"] for row in rows})
    data = [{**tokenizer(row["text"], truncation=True, max_length=128),
             "labels": names.index(row["label"])} for row in rows]
    model = hf.AutoModelForSequenceClassification.from_pretrained(
        args.model, num_labels=len(names), dtype=torch.float32)
    return model, data, hf.DataCollatorWithPadding(tokenizer), BATCH


def their_images(args):
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
    return model, rows, None, IMAGES


def train_theirs(case, args):
    import transformers as hf
    from peft import LoraConfig, get_peft_model

    class Cost(hf.TrainerCallback):
        marks = []

        def on_step_end(self, *_, **__):
            self.marks.append(
                cpu_seconds(resource.getrusage(resource.RUSAGE_SELF)))

    text = case["task"] == "SEQ_CLS"
    model, rows, collator, batch = (their_texts if text
                                    else their_images)(args)
    if case["tuning"] == "lora":
        model = get_peft_model(model, LoraConfig(
            task_type="SEQ_CLS" if text else None,
            modules_to_save=["classifier"],
            target_modules=case["targets"], **LORA))
    cost = Cost()
    hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=str(args.out / "theirs"), save_strategy="no",
            per_device_train_batch_size=batch, max_steps=args.steps + WARM,
            learning_rate=1e-4, seed=1, report_to=[], use_cpu=True,
            logging_strategy="no", disable_tqdm=True),
        train_dataset=rows, data_collator=collator, callbacks=[cost]).train()
    print((cost.marks[-1] - cost.marks[WARM - 1]) / args.steps)


# --- both --------------------------------------------------------------------

def cases():
    for task, name, targets in (("SEQ_CLS", "text", TEXT_TARGETS),
                                ("IMAGE_CLS", "image", IMAGE_TARGETS)):
        for tuning in ("full", "lora"):
            yield {"name": f"{name}-{tuning}", "task": task, "tuning": tuning,
                   "targets": targets}


def save_vit(args):
    """A model for the adapter of the images, drawn once."""
    if (args.out / "vit").is_dir():
        return
    model, *_ = their_images(args)
    model.save_pretrained(args.out / "vit")
    name = "preprocessor_config.json"
    (args.out / "vit" / name).write_bytes(
        (args.digits / "model" / name).read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("bin", "model", "tables", "digits", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("bin", "model", "tables", "digits", "out"):
        setattr(args, name, getattr(args, name).resolve())
    if args.theirs:
        train_theirs(next(c for c in cases() if c["name"] == args.theirs),
                     args)
        return
    os.environ["OMP_NUM_THREADS"] = args.threads
    args.out.mkdir(parents=True, exist_ok=True)
    slower = []
    for case in cases():
        if args.only not in case["name"]:
            continue
        if case["name"] == "image-lora":
            save_vit(args)
        pairs = [(ours(case, args), theirs(case, args))
                 for _ in range(args.rounds)]
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{case['name']:10} CPU seconds a step, ours / theirs: "
              + "  ".join(f"{a:.3f} / {b:.3f}" for a, b in pairs)
              + f"  median ratio {ratio:.3f}", flush=True)
        if ratio > 1:
            slower.append(case["name"])
    sys.exit(f"slower than Transformers: {slower}" if slower else 0)


if __name__ == "__main__":
    main()
