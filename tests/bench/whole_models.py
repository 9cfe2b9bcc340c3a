#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of whole models with random weights: ours, Transformers', and
Transformers' with torch.compile, each in a process of its own on one device.

    whole_models.py BIN [--device cuda|cpu] [--steps N] [--only ROW …]
                    [--no-compile]

BIN holds mpsd-worker; run with a Python that has transformers. Prints a line a
row: milliseconds a step of each, the median of the last two thirds.
"""

import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/live/memory"))
sys.path.insert(0, str(ROOT / "tests/e2e"))
sys.dont_write_bytecode = True
import big_jobs  # noqa: E402

BERT = {**big_jobs.encoder("bert", 768, 3072, 12, 12), "vocab_size": 30522}
VIT = big_jobs.encoder("vit", 768, 3072, 12, 12)
QWEN = big_jobs.decoder("qwen2", 896, 4864, 24, 14, 2, 151936)
# Model, rows, tokens a row.
ROWS = {"bert": (BERT, 32, 128), "vit": (VIT, 32, 1), "qwen0.5b": (QWEN, 8, 512)}


def median(times):
    return 1000 * statistics.median(times[len(times) // 3:])


def ours(args, name, bf16):
    config, rows, length = ROWS[name]
    with tempfile.TemporaryDirectory() as folder:
        job = big_jobs.write_job(
            pathlib.Path(folder) / "job", config, rows, length,
            {"fine_tune_type": "full", "lora": None, "from_scratch": True,
             "device": args.device,
             "training": {"bf16": bf16, "max_steps": args.steps,
                          "save_steps": 0}},
            steps=args.steps if name != "vit" else 2)
        out = job.parent / "out"
        done = subprocess.run([args.bin / "mpsd-worker", "--job", job, "--out",
                               out], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        lines = map(json.loads, (out / "metrics.jsonl").open())
        return median([l["seconds"] for l in lines if "data_wait_seconds" in l])


def peer(args):
    """Prints the median of a plain loop over Transformers' model."""
    import torch
    import transformers as hf
    name, bf16, compiled = args.peer
    config, rows, length = ROWS[name]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        kind = hf.AutoConfig.from_pretrained(folder)
    classes = {"bert": hf.AutoModelForSequenceClassification,
               "vit": hf.AutoModelForImageClassification}
    model = classes.get(name, hf.AutoModelForCausalLM).from_config(kind)
    model.to(args.device).train()
    inputs = {"labels": torch.randint(0, 2, (rows,))}
    if name == "vit":
        inputs["pixel_values"] = torch.randn(rows, 3, 224, 224)
    else:
        ids = torch.randint(5, config["vocab_size"], (rows, length))
        inputs |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if name not in classes:
            inputs["labels"] = ids
    inputs = {key: value.to(args.device) for key, value in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    run = torch.compile(model) if compiled == "compiled" else model
    cast = (torch.autocast(args.device, torch.bfloat16)
            if bf16 == "bf16" else contextlib.nullcontext())
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        with cast:
            loss = run(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(median(times))


def theirs(args, *what):
    done = subprocess.run(
        [sys.executable, __file__, args.bin, "--device", args.device, "--steps",
         str(args.steps), "--peer", *what], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-1000:], file=sys.stderr)
        return float("nan")
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=ROWS)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer(args)
    print("row           mpsd  Transformers  + compile")
    for name in args.only:
        for dtype in ("bf16", "fp32"):
            row = [ours(args, name, dtype == "bf16"),
                   theirs(args, name, dtype, "eager")]
            if not args.no_compile:
                row.append(theirs(args, name, dtype, "compiled"))
            print(f"{name} {dtype}".ljust(14),
                  "  ".join(f"{ms:8.1f}" for ms in row), flush=True)


if __name__ == "__main__":
    main()
