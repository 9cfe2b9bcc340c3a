#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LoRA of SmolLM2 on conversations, ours against Transformers' Trainer and PEFT.

    chat.py BIN MODEL DATA OUT [--seeds N] [--steps N] [--rows N]
            [--device cpu|cuda]

BIN holds mpsd-worker; MODEL and DATA are what deploy/demo.sh leaves in
build/demo: SmolLM2-135M-Instruct and data/ with train.jsonl and eval.jsonl.
Loss on what the assistant says alone, every linear adapted. Passes when our
mean loss on the held-out conversations is not above theirs by more than the
spread of the seeds.
"""

import argparse
import json
import sys

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

import runs

BATCH, RATE, LENGTH = 4, 5e-4, 256
LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.05,
        "target_modules": "all-linear"}
IGNORE = -100


def conversations(path, count):
    return [row["messages"] for row in runs.lines(path)[:count]]


def encode(tokenizer, messages):
    """Tokens, and labels where the assistant speaks, which it does last: to
    the end, the line's end after <|im_end|> too, as the training templates of
    TRL 1.16 have it for models of this kind (qwen3_training.jinja)."""
    render = dict(tokenize=True, return_dict=False)
    prompt = tokenizer.apply_chat_template(
        messages[:-1], add_generation_prompt=True, **render)
    ids = tokenizer.apply_chat_template(messages, **render)
    if ids[:len(prompt)] != prompt:
        sys.exit("the template puts something before what the assistant says")
    labels = [IGNORE] * len(prompt) + ids[len(prompt):]
    return {"input_ids": ids[:LENGTH], "labels": labels[:LENGTH]}


def collate(rows, pad):
    longest = max(len(row["input_ids"]) for row in rows)

    def padded(name, value):
        return torch.tensor([row[name] + [value] * (longest - len(row[name]))
                             for row in rows])

    ids, labels = padded("input_ids", pad), padded("labels", IGNORE)
    mask = torch.tensor([[1] * len(row["input_ids"]) +
                         [0] * (longest - len(row["input_ids"]))
                         for row in rows])
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def loss_by_token(trainer):
    """The mean over all labels, not over batches' means."""
    total = count = 0
    model = trainer.model.eval()
    with torch.no_grad():
        for batch in trainer.get_eval_dataloader():
            batch = {k: v.to(model.device) for k, v in batch.items()}
            labels = int((batch["labels"][:, 1:] != IGNORE).sum())
            total += model(**batch).loss.item() * labels
            count += labels
    return total / count


class Trainer(hf.Trainer):
    def evaluate(self, *_, **__):
        return {"eval_loss": loss_by_token(self)}


def theirs(args, seed):
    hf.set_seed(seed)
    tokenizer = hf.AutoTokenizer.from_pretrained(args.model)
    model = hf.AutoModelForCausalLM.from_pretrained(args.model,
                                                    dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **LORA))
    train, evaluation = (
        [encode(tokenizer, m)
         for m in conversations(args.data / f"{name}.jsonl", count)]
        for name, count in (("train", args.rows), ("eval", args.eval_rows)))
    return runs.theirs(
        Trainer, "eval_loss", model=model,
        args=runs.training_arguments(
            args, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=8, max_steps=args.steps,
            learning_rate=RATE, lr_scheduler_type="cosine", warmup_steps=4,
            seed=seed),
        train_dataset=train, eval_dataset=evaluation,
        data_collator=lambda rows: collate(rows, tokenizer.pad_token_id or 0))


def ours(args, seed):
    job = {"model": str(args.model), "task": "CAUSAL_LM",
           "dataset": {"train": str(args.data / "train.jsonl"),
                       "eval": str(args.data / "eval.jsonl"),
                       "max_train_samples": args.rows,
                       "max_eval_samples": args.eval_rows},
           "lora": LORA,
           "training": {"max_steps": args.steps, "max_length": LENGTH,
                        "per_device_train_batch_size": BATCH,
                        "per_device_eval_batch_size": 8,
                        "learning_rate": RATE, "lr_scheduler_type": "cosine",
                        "warmup_steps": 4, "assistant_only_loss": True,
                        "eval_steps": args.steps, "seed": seed,
                        "save_steps": 0},
           "device": args.device}
    return runs.ours(args, job, f"chat-{seed}", "eval_loss")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--eval-rows", type=int, default=90)
    args = runs.arguments(parser, "bin", "model", "data", "out")
    ok, report = runs.compare(
        args, "SmolLM2 chat", lambda seed: ours(args, seed),
        lambda seed: theirs(args, seed), what="eval loss",
        lower_is_better=True)
    (args.out / "chat.json").write_text(json.dumps(report, indent=1))
    if not ok:
        sys.exit("worse than Transformers")


if __name__ == "__main__":
    main()
