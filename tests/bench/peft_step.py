#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of Transformers' Trainer with PEFT, as step_bench measures ours.

    peft_step.py --shape S --seq N --mb N --accum N --steps N [--targets all]
                 [--dtype bf16] [--device cuda] [--compile] [--checkpointing]
                 [--turns]

Random weights of the shapes in shapes.cc, random tokens, LoRA r=8 without
dropout; prints one line of JSON with the median step. With --turns it says
"ready" before each step and waits for a line on its standard input.
"""

import argparse
import json
import statistics
import tempfile
import time

import torch
import transformers as hf
from peft import LoraConfig, get_peft_model

LLAMA, QWEN = hf.LlamaConfig, hf.Qwen2Config
SHAPES = {
    "llama7b": (LLAMA, dict(
        vocab_size=32000, hidden_size=4096, intermediate_size=11008,
        num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32,
        max_position_embeddings=4096)),
    "qwen0.5b": (QWEN, dict(
        vocab_size=151936, hidden_size=896, intermediate_size=4864,
        num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
        max_position_embeddings=32768, tie_word_embeddings=True,
        use_sliding_window=False)),
    "smol135m": (LLAMA, dict(
        vocab_size=49152, hidden_size=576, intermediate_size=1536,
        num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        max_position_embeddings=8192, tie_word_embeddings=True)),
    "tiny": (LLAMA, dict(
        vocab_size=1024, hidden_size=256, intermediate_size=688,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=1024)),
}


class StepTimes(hf.TrainerCallback):
    def __init__(self, cuda, turns):
        self.cuda, self.turns, self.times = cuda, turns, []

    def on_step_begin(self, *_, **__):
        self.wait()
        if self.turns:
            print("ready", flush=True)
            input()
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.wait()
        self.times.append(time.perf_counter() - self.start)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()


def make_model(args):
    kind, sizes = SHAPES[args.shape]
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[args.dtype]
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(args.device):
        model = hf.AutoModelForCausalLM.from_config(kind(**sizes)).to(dtype)
    torch.set_default_dtype(before)
    if args.checkpointing:
        model.enable_input_require_grads()
    targets = "all-linear" if args.targets == "all" else ["q_proj", "v_proj"]
    return get_peft_model(model, LoraConfig(
        r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--targets", default="qv", choices=("qv", "all"))
    for name, default in (("seq", 128), ("mb", 1), ("accum", 1), ("steps", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--turns", action="store_true")
    args = parser.parse_args()
    model = make_model(args)
    vocab = SHAPES[args.shape][1]["vocab_size"]
    rows = args.mb * args.accum * (args.steps + 3)
    data = torch.randint(0, vocab, (rows, args.seq))
    mask = torch.ones(args.seq, dtype=torch.long)
    times = StepTimes(args.device == "cuda", args.turns)
    with tempfile.TemporaryDirectory() as out:
        trainer = hf.Trainer(
            model=model, callbacks=[times],
            train_dataset=[{"input_ids": row, "labels": row,
                            "attention_mask": mask} for row in data],
            args=hf.TrainingArguments(
                output_dir=out, per_device_train_batch_size=args.mb,
                gradient_accumulation_steps=args.accum,
                max_steps=args.steps + 3, learning_rate=2e-4,
                logging_strategy="no", save_strategy="no", report_to=[],
                gradient_checkpointing=args.checkpointing,
                torch_compile=args.compile, disable_tqdm=True,
                use_cpu=args.device == "cpu"))
        trainer.train()
    taken = times.times[3:]
    step = statistics.median(taken)
    peak = (torch.cuda.max_memory_allocated() / 2**30
            if args.device == "cuda" else 0)
    result = {"peer": "peft" + ("+compile" if args.compile else ""),
              "step_s": step, "peak_alloc_gib": peak,
              "tok_s": round(args.mb * args.accum * args.seq / step)}
    if args.turns:
        result["times"] = taken
    print(json.dumps(result))


if __name__ == "__main__":
    main()
