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
import statistics
import sys

import torch
import transformers as hf
from safetensors.torch import load_file

import runs

BATCH, RATE, DECAY, WARMUP = 64, 3e-4, 0.05, 0.1
SMALLEST_CROP = 0.8
LEAST = 0.95


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
    return runs.theirs(
        hf.Trainer, "eval_accuracy", model=model,
        args=runs.training_arguments(
            args, per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=256, num_train_epochs=args.epochs,
            learning_rate=RATE, weight_decay=DECAY,
            warmup_steps=args.warmup_steps, lr_scheduler_type="cosine",
            seed=seed, dataloader_num_workers=args.workers),
        train_dataset=Digits(args.data, "train"),
        eval_dataset=Digits(args.data, "eval"), compute_metrics=runs.accuracy)


def ours(args, seed):
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
    return runs.ours(args, job, f"digits-{seed}", "eval_accuracy")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    args = runs.arguments(parser, "bin", "data", "out")
    rows = len(load_file(args.data / "train.safetensors")["labels"])
    args.warmup_steps = int(WARMUP * args.epochs * -(-rows // BATCH))
    ok, report = runs.compare(args, "digits", lambda seed: ours(args, seed),
                              lambda seed: theirs(args, seed))
    (args.out / "digits.json").write_text(json.dumps(report, indent=1))
    mean = statistics.mean(report["metric"]["ours"])
    if not ok or mean <= LEAST:
        sys.exit(f"too low: {mean:.4f}")


if __name__ == "__main__":
    main()
