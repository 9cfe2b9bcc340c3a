#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred losses of one LoRA run, ours and PEFT's, step by step.

    curve.py BIN MODEL DATA OUT [--steps N] [--device cpu|cuda] [--plot FILE]
             [--bf16 [--fp32 CURVES]]

BIN holds mpsd-worker; MODEL and DATA are what deploy/demo.sh leaves in
build/demo: SmolLM2-135M-Instruct and data/ with train.jsonl. Loss on what the
assistant says alone. Both begin with the same adapter and take the rows in
order, so that the losses can be held against each other: no dropout, fp32.
Passes when no loss differs by more than 1 % and the mean difference is below
0.1 %.

With --bf16 the frozen weights and the activations of both are bf16, whose
rounding alone parts any two runs. How far it may part them is what it does to
PEFT: passes when our losses are on average no farther from those of PEFT in
fp32 than 1.25 times PEFT's in bf16. The former are run too, or read from
CURVES, the curves.json of a run without --bf16.
"""

import argparse
import itertools
import json
import pathlib
import sys

import torch
import transformers as hf
from peft import LoraConfig, PeftModel, get_peft_model

import chat
import runs

LORA = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}


def make_adapter(args):
    torch.manual_seed(1)
    model = hf.AutoModelForCausalLM.from_pretrained(args.model,
                                                    dtype=torch.float32)
    folder = args.out / "adapter"
    get_peft_model(model, LoraConfig(
        task_type="CAUSAL_LM", **LORA)).save_pretrained(folder)
    return folder


def theirs(args, adapter, dtype=torch.float32):
    tokenizer = hf.AutoTokenizer.from_pretrained(args.model)
    model = PeftModel.from_pretrained(
        hf.AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype),
        adapter, is_trainable=True)  # the adapter in fp32
    model.to(args.device).train()
    rows = [chat.encode(tokenizer, m) for m in chat.conversations(
        args.data / "train.jsonl", args.steps * chat.BATCH)]
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=chat.RATE, weight_decay=0)
    schedule = hf.get_cosine_schedule_with_warmup(optimizer, 4, args.steps)
    losses = []
    for at in range(0, len(rows), chat.BATCH):
        batch = chat.collate(rows[at:at + chat.BATCH], 0)
        loss = model(**{k: v.to(args.device) for k, v in batch.items()}).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def ours(args, adapter):
    job = {"model": str(args.model), "adapter": str(adapter),
           "dataset": {"train": str(args.data / "train.jsonl"),
                       "max_train_samples": args.steps * chat.BATCH},
           "training": {"max_steps": args.steps, "max_length": chat.LENGTH,
                        "per_device_train_batch_size": chat.BATCH,
                        "learning_rate": chat.RATE,
                        "lr_scheduler_type": "cosine", "warmup_steps": 4,
                        "assistant_only_loss": True, "save_steps": 0,
                        "train_sampling_strategy": "sequential",
                        "bf16": args.bf16},
           "device": args.device}
    run = runs.run_worker(args.bin, job, args.out / "ours")
    manifest = json.loads((run / "run.json").read_text())
    print("gradients:", manifest["gradients"])
    return [row["loss"] for row in runs.lines(run / "metrics.jsonl")]


def plot(file, curves):
    """An SVG of both curves, theirs wide and pale beneath ours."""
    width, height, margin = 720, 300, 40
    top = max(itertools.chain(*curves.values())) * 1.05
    steps = max(map(len, curves.values()))

    def place(i, loss):
        x = margin + (width - 2 * margin) * i / max(steps - 1, 1)
        y = height - margin - (height - 2 * margin) * loss / top
        return f"{x:.1f},{y:.1f}"

    styles = {"PEFT": "#f5a623;stroke-width:5;stroke-opacity:.55",
              "mpsd": "#1f4e9c;stroke-width:1.5"}
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
             f'height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for value in range(int(top) + 1):
        x, y = place(0, value).split(",")
        parts.append(f'<line x1="{x}" x2="{width - margin}" y1="{y}" '
                     f'y2="{y}" stroke="#ddd"/><text x="{margin - 8}" '
                     f'y="{y}" text-anchor="end">{value}</text>')
    for name, losses in curves.items():
        points = " ".join(place(i, loss) for i, loss in enumerate(losses))
        parts.append(f'<polyline points="{points}" '
                     f'style="fill:none;stroke:{styles[name]}"/>')
    for row, name in enumerate(curves):
        y = 20 + 16 * row
        parts.append(f'<line x1="560" x2="590" y1="{y - 4}" y2="{y - 4}" '
                     f'style="stroke:{styles[name]}"/>'
                     f'<text x="598" y="{y}">{name}</text>')
    parts.append(f'<text x="{width // 2}" y="{height - 8}" '
                 f'text-anchor="middle">optimizer steps ({steps})</text>')
    file.write_text("\n".join(parts) + "\n</svg>\n")


def distances(losses, reference):
    """The largest and the mean of the relative differences."""
    each = [abs(a / b - 1) for a, b in zip(losses, reference, strict=True)]
    return max(each), sum(each) / len(each)


def report(name, losses, reference):
    largest, mean = distances(losses, reference)
    print(f"{name}: {len(losses)} losses, {losses[0]:.4f} to "
          f"{losses[-1]:.4f}; from PEFT's in fp32: largest difference "
          f"{largest:.2e}, mean {mean:.2e}", flush=True)
    return largest, mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fp32", type=pathlib.Path)
    args = runs.arguments(parser, "bin", "model", "data", "out")
    args.out.mkdir(parents=True, exist_ok=True)
    adapter = make_adapter(args)
    fp32 = (json.loads(args.fp32.read_text())["PEFT"] if args.fp32
            else theirs(args, adapter))
    if args.bf16:
        curves = {"PEFT": theirs(args, adapter, torch.bfloat16)}
    else:
        curves = {"PEFT": fp32}
    curves["mpsd"] = ours(args, adapter)
    if args.plot:
        plot(args.plot, curves)
    (args.out / "curves.json").write_text(json.dumps(curves))
    largest, mean = report("mpsd", curves["mpsd"], fp32)
    if args.bf16:
        _, theirs_mean = report("PEFT", curves["PEFT"], fp32)
        passed = mean <= 1.25 * theirs_mean
    else:
        passed = largest <= 0.01 and mean <= 0.001
    if not passed:
        sys.exit("the losses part")


if __name__ == "__main__":
    main()
