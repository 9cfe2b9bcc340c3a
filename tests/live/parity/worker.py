# SPDX-License-Identifier: Apache-2.0
"""mpsd-worker from job.json to adapter, against Transformers and PEFT.

usage: worker.py BIN_DIR

Every optimizer step takes the whole data set, so that the order of samples
does not matter and the worker's metrics.jsonl must show the losses of
Transformers' Trainer on the same chats, tokenized and masked by Transformers.
Its adapter must load in PeftModel.from_pretrained and give our logits.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import parity
import cases
import oracle
import tokenizer
import torch
from transformers import AutoTokenizer

CHATS = [("hi", "hello"), ("2+2?", "4"), ("name a color", "blue"),
         ("is it cold?", "yes, it is"), ("say a", "a"), ("who?", "me"),
         ("bye", "see you"), ("up or down?", "down")]


def messages():
    return [[dict(role="user", content=user),
             dict(role="assistant", content=reply)] for user, reply in CHATS]


def training(case, **overrides):
    return dict(case["training"], per_device_train_batch_size=4,
                gradient_accumulation_steps=2, max_length=64,
                assistant_only_loss=True, **overrides)


def run_worker(program, folder, model, adapter, lora, training, data=None,
               **fields):
    if data is None:
        data = folder / "train.jsonl"
        data.write_text("".join(json.dumps(dict(messages=chat)) + "\n"
                                for chat in messages()))
    job = dict(model=str(model), task="CAUSAL_LM", device="cpu",
               dataset=dict(train=str(data)), lora=lora, training=training,
               **fields)
    if adapter:
        job["adapter"] = str(adapter)
    (folder / "job.json").write_text(json.dumps(job))
    out = folder / "out"
    run = subprocess.run([str(program), "--job", str(folder / "job.json"),
                          "--out", str(out)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"mpsd-worker: exit code {run.returncode}\n{run.stdout}"
                 f"{run.stderr}")
    lines = (out / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    return out, [step for step in steps if "loss" in step]


def tokenized(model):
    """The chats as Transformers tokenizes and masks them."""
    encoder = AutoTokenizer.from_pretrained(model)
    rows, lengths = [], []
    for chat in messages():
        encoded = encoder.apply_chat_template(
            chat, tokenize=True, return_dict=True,
            return_assistant_tokens_mask=True)
        mask = encoded["assistant_masks"]
        rows.append([(token, token if keep else oracle.IGNORE)
                     for token, keep in zip(encoded["input_ids"], mask)])
        lengths.append(len(rows[-1]))
    shape = (len(rows), max(lengths))
    batch = dict(input_ids=torch.zeros(shape, dtype=torch.long),
                 labels=torch.full(shape, oracle.IGNORE),
                 attention_mask=torch.zeros(shape, dtype=torch.long))
    for i, row in enumerate(rows):
        ids, labels = zip(*row)
        batch["input_ids"][i, :len(ids)] = torch.tensor(ids)
        batch["labels"][i, :len(ids)] = torch.tensor(labels)
        batch["attention_mask"][i, :len(ids)] = 1
    assert (batch["labels"] != oracle.IGNORE).any(dim=1).all()
    return batch, lengths


def make_case(name, folder):
    case = cases.CASES[name]
    model_type, shape = case["config"]
    shape = dict(shape, vocab_size=128)
    generator = torch.Generator().manual_seed(23)
    model, adapter = folder / "model", folder / "adapter"
    oracle.save_model(oracle.make_model(model_type, shape, generator), model,
                      case)
    tokenizer.save(model, 128)
    oracle.make_adapter(model, case["lora"], adapter, generator)
    return case, model, adapter


def check_logits(report, where, bin_dir, model, adapter, batch):
    """An adapter of ours, read by PEFT and by us, gives the same logits. (Its
    gradients are left out: on chats it has learnt by heart they are noise.)"""
    theirs = oracle.forward_backward(
        oracle.load_adapter(model, adapter).eval(), batch)
    ours = parity.probe(parity.binary(bin_dir, "parity_probe"), model, adapter,
                        batch)
    real = batch["attention_mask"].bool()
    for name in ("logits", "loss"):
        pair = [v[name][real] if name == "logits" else v[name]
                for v in (ours, theirs)]
        report.less(f"{where} {name}", name, parity.relative(*pair),
                    parity.TENSOR)


def check_run(report, bin_dir, name, folder, packing):
    case, model, adapter = make_case(name, folder)
    where = f"{name}{' packed' if packing else ''}"
    arguments = training(case)
    batch, lengths = tokenized(model)
    golden = oracle.train(oracle.load_adapter(model, adapter), batch, lengths,
                          {k: v for k, v in arguments.items()
                           if k != "assistant_only_loss"})
    if packing:  # all chats lie in few rows; one step takes them all
        arguments.update(packing=True, per_device_train_batch_size=8,
                         gradient_accumulation_steps=1)
    out, steps = run_worker(parity.binary(bin_dir, "mpsd-worker"), folder,
                            model, adapter, case["lora"], arguments)
    report.losses(where, [step["loss"] for step in steps],
                  golden["train.losses"].tolist())
    norms = torch.tensor([step["grad_norm"] for step in steps])
    report.less(f"{where} gradient norms", "norms",
                parity.relative(norms, golden["train.grad_norms"]), 1e-3)
    final = parity.load_file(out / "adapter" / "adapter_model.safetensors")
    for key, value in golden.items():
        if key.startswith("final."):
            report.less(f"{where} {key}", "final", parity.relative(
                final[key.removeprefix("final.")].float(), value), 1e-3)
    check_logits(report, f"{where} adapter of the worker", bin_dir, model,
                 out / "adapter", batch)


def check_fresh(report, bin_dir, name, folder):
    """From PEFT's initialisation of ours: what we write, PEFT reads."""
    case, model, _ = make_case(name, folder)
    lora = dict(case["lora"], lora_dropout=0.1)
    out, _ = run_worker(parity.binary(bin_dir, "mpsd-worker"), folder, model,
                        None, lora, training(case))
    batch, _ = tokenized(model)
    check_logits(report, f"{name} fresh", bin_dir, model, out / "adapter",
                 batch)


def main():
    bin_dir = sys.argv[1]
    reports = []
    for name in cases.CASES:
        report = parity.Report(f"worker {name}")
        for check in (lambda f: check_run(report, bin_dir, name, f, False),
                      lambda f: check_run(report, bin_dir, name, f, True),
                      lambda f: check_fresh(report, bin_dir, name, f)):
            with tempfile.TemporaryDirectory() as folder:
                check(pathlib.Path(folder))
        reports.append(report)
    parity.finish(reports)


if __name__ == "__main__":
    main()
