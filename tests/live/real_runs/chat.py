# SPDX-License-Identifier: Apache-2.0
"""Conversations as tokens and labels, by Transformers."""

import sys

import torch

import runs

BATCH, RATE, LENGTH = 4, 5e-4, 256
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
