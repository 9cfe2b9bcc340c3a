#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the program's start to its first optimizer step, ours and Transformers'.

    first_step.py BIN MODEL DATA [--rows N] [--rounds N] [--cold-pages]

BIN holds mpsd-worker; MODEL and DATA are what deploy/demo.sh leaves in
build/demo: SmolLM2-135M-Instruct and data/ with train.jsonl. Run with a Python
that has transformers and peft. LoRA on every linear, fp32 on the CPU, loss on
what the assistant says, two rows a step. Three programs in turn, each a process
of its own, N rounds:

  cold    mpsd-worker without a cache: the model is hashed, the rows tokenized
  warm    mpsd-worker once more
  theirs  a script with Trainer that reads and tokenizes the same rows

--cold-pages has the system forget its cache of files before each (Linux, root).
Prints, for each, the median seconds until the first step begins and until it
has ended, and the CPU's seconds until the end of the process.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

LORA = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}
LENGTH, BATCH, RATE = 256, 2, 1e-4


def lines(path, count):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(count), file)]


def train_with_transformers(model_folder, data, rows):
    """The script that a user of Transformers has; prints when its first step
    begins and ends."""
    import torch
    import transformers as hf
    from peft import LoraConfig, get_peft_model

    tokenizer = hf.AutoTokenizer.from_pretrained(model_folder)
    samples = []
    for row in lines(data, rows):
        prompt, whole = (tokenizer.apply_chat_template(
            row["messages"][:end], tokenize=True, return_dict=False,
            add_generation_prompt=end == -1) for end in (-1, None))
        labels = [-100] * len(prompt) + whole[len(prompt):]
        samples.append({"input_ids": whole[:LENGTH],
                        "labels": labels[:LENGTH]})
    model = hf.AutoModelForCausalLM.from_pretrained(model_folder,
                                                    dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **LORA))

    class Times(hf.TrainerCallback):
        def on_step_begin(self, *_, **__):
            print(time.time(), flush=True)

        def on_step_end(self, *_, **__):
            print(time.time(), flush=True)

    with tempfile.TemporaryDirectory() as out:
        arguments = hf.TrainingArguments(
            out, max_steps=1, per_device_train_batch_size=BATCH,
            learning_rate=RATE, use_cpu=True, report_to=[],
            save_strategy="no", disable_tqdm=True)
        hf.Trainer(model, arguments, train_dataset=samples,
                   data_collator=hf.DataCollatorForSeq2Seq(tokenizer),
                   callbacks=[Times()]).train()


def run(command, environment):
    """When it started, its output, and what it took of the CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.time()
    done = subprocess.run(command, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    cpu = (after.ru_utime + after.ru_stime -
           before.ru_utime - before.ru_stime)
    return start, done.stdout, cpu


def ours(args, folder, rows):
    """Of the worker: its first line of metrics.jsonl is there when the step has
    ended, and says how long it took."""
    job, out = folder / "job.json", folder / "out"
    job.write_text(json.dumps({
        "model": str(args.model), "dataset": {"train": str(rows)},
        "lora": LORA, "device": "cpu",
        "training": {"max_steps": 1, "per_device_train_batch_size": BATCH,
                     "max_length": LENGTH, "learning_rate": RATE,
                     "assistant_only_loss": True, "save_steps": 0}}))
    subprocess.run(["rm", "-rf", out], check=True)
    environment = dict(os.environ, XDG_CACHE_HOME=str(folder / "cache"))
    start, _, cpu = run([args.bin / "mpsd-worker", "--job", job, "--out", out],
                        environment)
    metrics = out / "metrics.jsonl"
    seconds = json.loads(metrics.read_text().splitlines()[0])["seconds"]
    end = metrics.stat().st_mtime - start
    return end - seconds, end, cpu


def theirs(args, rows):
    start, output, cpu = run(
        [sys.executable, __file__, "--theirs", args.bin, args.model, rows,
         "--rows", str(args.rows)], dict(os.environ))
    # Trainer prints lines of its own.
    times = []
    for line in output.splitlines():
        try:
            times.append(float(line) - start)
        except ValueError:
            pass
    return times[0], times[1], cpu


def forget_pages():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def measure(args, folder):
    rows = folder / "train.jsonl"
    with open(rows, "w", encoding="utf-8") as file:
        for row in lines(args.data / "train.jsonl", args.rows):
            file.write(json.dumps(row) + "\n")
    programs = {"cold": lambda: ours(args, folder, rows),
                "warm": lambda: ours(args, folder, rows),
                "theirs": lambda: theirs(args, rows)}
    found = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, program in programs.items():
            if name == "cold":
                subprocess.run(["rm", "-rf", folder / "cache"], check=True)
            if args.cold_pages:
                forget_pages()
            found[name].append(program())
            print(name, *(f"{value:.2f}" for value in found[name][-1]),
                  file=sys.stderr)
    return {name: dict(zip(("begins", "ends", "cpu"),
                           (round(statistics.median(values), 2)
                            for values in zip(*times))))
            for name, times in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold-pages", action="store_true")
    parser.add_argument("--theirs", action="store_true",
                        help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.theirs:
        train_with_transformers(args.model, args.data, args.rows)
        return
    args.bin, args.model = args.bin.resolve(), args.model.resolve()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(args, pathlib.Path(folder))))


if __name__ == "__main__":
    main()
