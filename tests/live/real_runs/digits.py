#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ViT-tiny from scratch on 5,000 digits of MNIST, ours against Transformers'.

    digits.py BIN DATA OUT [--seeds N] [--epochs E] [--device cpu|cuda]

DATA is what tests/live/images/make_mnist.py wrote. Both sides cut the training
images by RandomResizedCrop (torchvision's, on Transformers' side). Passes when
our mean accuracy is above 95 % and not below theirs by more than the spread of
the seeds.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import transformers as hf
from safetensors.torch import load_file

BATCH, RATE, DECAY, WARMUP = 64, 3e-4, 0.05, 0.1
SMALLEST_CROP = 0.8


class StepTimes(hf.TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, *_, **__):
        self.start = time.perf_counter()

    def on_step_end(self, *_, **__):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.start)


class Digits(torch.utils.data.Dataset):
    def __init__(self, folder, name):
        data = load_file(folder / f"{name}.safetensors")
        processor = json.loads(
            (folder / "model" / "preprocessor_config.json").read_text())
        self.mean, = processor["image_mean"]
        self.std, = processor["image_std"]
        self.images, self.labels = data["images"].unsqueeze(1), data["labels"]
        self.crop = None
        if name == "train":
            from torchvision.transforms import v2
            self.crop = v2.RandomResizedCrop(
                self.images.shape[-1], scale=(SMALLEST_CROP, 1))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.crop:
            image = self.crop(image)
        return {"pixel_values": (image.float() / 255 - self.mean) / self.std,
                "labels": int(self.labels[index])}


def theirs(args, seed):
    hf.set_seed(seed)
    config = hf.AutoConfig.from_pretrained(args.data / "model")
    model = hf.AutoModelForImageClassification.from_config(config)
    steps = StepTimes()
    trainer = hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=str(args.out / "trainer"), save_strategy="no",
            per_device_train_batch_size=BATCH, per_device_eval_batch_size=256,
            num_train_epochs=args.epochs, learning_rate=RATE,
            weight_decay=DECAY, warmup_steps=args.warmup_steps,
            lr_scheduler_type="cosine", seed=seed, report_to=[],
            use_cpu=args.device == "cpu", logging_strategy="no",
            disable_tqdm=True, dataloader_num_workers=args.workers),
        train_dataset=Digits(args.data, "train"),
        eval_dataset=Digits(args.data, "eval"),
        compute_metrics=lambda p: {
            "accuracy": float(
                (p.predictions.argmax(-1) == p.label_ids).mean())},
        callbacks=[steps])
    trainer.train()
    return trainer.evaluate()["eval_accuracy"], statistics.median(steps.times)


def ours(args, seed):
    out = args.out / f"digits-{seed}"
    subprocess.run(["rm", "-rf", out], check=True)
    out.mkdir(parents=True)
    job = {"model": str(args.data / "model"), "task": "IMAGE_CLS",
           "fine_tune_type": "full", "from_scratch": True,
           "dataset": {k: str(args.data / f"{k}.safetensors")
                       for k in ("train", "eval")},
           "augmentation": {"crop_scale_min": SMALLEST_CROP,
                            "horizontal_flip": 0},
           "training": {"per_device_train_batch_size": BATCH,
                        "per_device_eval_batch_size": 256,
                        "num_train_epochs": args.epochs, "learning_rate": RATE,
                        "weight_decay": DECAY,
                        "warmup_steps": args.warmup_steps,
                        "lr_scheduler_type": "cosine", "seed": seed,
                        "save_steps": 0},
           "device": args.device}
    (out / "job.json").write_text(json.dumps(job, indent=1))
    subprocess.run([args.bin / "mpsd-worker", "--job", out / "job.json",
                    "--out", out / "run"], check=True,
                   stdout=open(out / "log", "w"))
    last = json.loads((out / "run/eval.jsonl").read_text().splitlines()[-1])
    times = [json.loads(line)["seconds"] for line in
             (out / "run/metrics.jsonl").read_text().splitlines()]
    return last["eval_accuracy"], statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=60)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    for name in ("bin", "data", "out"):
        setattr(args, name, getattr(args, name).resolve())
    hf.logging.set_verbosity_error()
    rows = len(load_file(args.data / "train.safetensors")["labels"])
    args.warmup_steps = int(WARMUP * args.epochs * -(-rows // BATCH))
    runs = {"ours": [], "theirs": []}
    for seed in range(1, args.seeds + 1):
        runs["ours"].append(ours(args, seed))
        runs["theirs"].append(theirs(args, seed))
    metric = {k: [m for m, _ in v] for k, v in runs.items()}
    seconds = {k: statistics.median(s for _, s in v) for k, v in runs.items()}
    print(f"digits           accuracy ours "
          f"{' '.join(f'{m:.4f}' for m in metric['ours'])}  Transformers "
          f"{' '.join(f'{m:.4f}' for m in metric['theirs'])}  step "
          f"{seconds['ours']:.4f} / {seconds['theirs']:.4f} s = "
          f"{seconds['ours'] / seconds['theirs']:.2f}", flush=True)
    (args.out / "digits.json").write_text(
        json.dumps({"metric": metric, "seconds": seconds}, indent=1))
    spread = max(max(v) - min(v) for v in metric.values())
    ours_mean, theirs_mean = (statistics.mean(metric[k])
                              for k in ("ours", "theirs"))
    if ours_mean <= 0.95 or ours_mean < theirs_mean - max(spread, 0.01):
        sys.exit(f"too low: {ours_mean:.4f}")


if __name__ == "__main__":
    main()
