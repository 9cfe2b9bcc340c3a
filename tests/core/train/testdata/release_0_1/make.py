#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the checkpoints of mpsd 0.1.0 in this folder: by that release's own
mpsd-worker, killed after its first checkpoint.

    make.py MPSD_WORKER

chat/     a causal LM: what resuming needs (run.json, step-5/), and expected.json,
          the losses of the same job undisturbed
adapter/  a quantised base and an adapter to start from; classes/ a classifier
          from scratch: run.json and the trainer's state alone
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[3] / "golden"
TRAINING = {"max_steps": 12, "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2, "learning_rate": 1e-2,
            "lr_scheduler_type": "cosine", "warmup_ratio": 0.1,
            "max_length": 48, "eval_steps": 3, "save_steps": 5}
JOBS = {
    "chat": {
        "name": "a name", "model": "model",
        "dataset": {"train": "train.jsonl", "eval": "eval.jsonl"},
        "lora": {"r": 2, "lora_dropout": 0.1,
                 "target_modules": ["q_proj", "down_proj"]},
        "training": TRAINING, "device": "cpu"},
    "adapter": {
        "model": "model", "adapter": "adapter",
        "quantization_config": {"load_in_4bit": True},
        "dataset": {"train": "train.jsonl", "eval": "eval.jsonl"},
        "training": dict(TRAINING, packing=True, bf16=True), "device": "cpu"},
    "classes": {
        "model": "bert", "task": "SEQ_CLS", "fine_tune_type": "full",
        "from_scratch": True,
        "dataset": {"train": "train.csv", "validation_split": 0.25,
                    "text_columns": ["café"], "max_train_samples": 40},
        "classification": {"class_weights": [1, 2.5]},
        "training": TRAINING, "device": "cpu"},
}


def write_inputs(folder):
    shutil.copytree(GOLDEN / "smollm/model", folder / "model")
    shutil.copytree(GOLDEN / "smollm/adapter", folder / "adapter")
    bert = folder / "bert"
    bert.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "smollm/model" / name, bert)
    (bert / "config.json").write_text(json.dumps({
        "model_type": "bert", "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
        "max_position_embeddings": 64}))
    for name, count in (("train.jsonl", 10), ("eval.jsonl", 300)):
        rows = [{"text": "row" + "".join(f" word{i * j}"
                                         for j in range(i % 4 + 1))}
                for i in range(count)]
        (folder / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows))
    (folder / "train.csv").write_text("café,label\n" + "".join(
        f"row {i} {'is fine,pos' if i % 2 else 'broke down,neg'}\n"
        for i in range(48)))


def run(worker, folder, job, out):
    (folder / "job.json").write_text(json.dumps(job))
    return subprocess.Popen(
        [worker, "--job", folder / "job.json", "--out", folder / out],
        stdout=subprocess.DEVNULL)


def killed_run(worker, folder, job):
    """Its output folder, which holds step-5 and no later checkpoint."""
    while True:
        shutil.rmtree(folder / "killed", ignore_errors=True)
        process = run(worker, folder, job, "killed")
        checkpoints = folder / "killed/checkpoints"
        while process.poll() is None and not (checkpoints / "step-5").exists():
            time.sleep(0.001)
        process.kill()
        assert process.wait() <= 0
        if [p.name for p in checkpoints.iterdir()] == ["step-5"]:
            return folder / "killed"


def main(worker):
    with tempfile.TemporaryDirectory(prefix="mpsd-release-") as scratch:
        folder = pathlib.Path(scratch)
        write_inputs(folder)
        for name, job in JOBS.items():
            out = HERE / name
            shutil.rmtree(out, ignore_errors=True)
            killed = killed_run(worker, folder, job)
            shutil.copytree(
                killed / "checkpoints/step-5", out / "step-5",
                ignore=None if name == "chat" else
                shutil.ignore_patterns("*.safetensors", "*config.json"))
            shutil.copy(killed / "run.json", out)
            if name != "chat":
                continue
            assert run(worker, folder, job, "whole").wait() == 0
            losses = [json.loads(line)["loss"] for line in
                      (folder / "whole/metrics.jsonl").open()]
            (out / "expected.json").write_text(
                json.dumps({"losses": losses}) + "\n")
            for file in ("train.jsonl", "eval.jsonl", "job.json"):
                shutil.copy(folder / file, out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
