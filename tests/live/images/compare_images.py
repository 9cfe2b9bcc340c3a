# SPDX-License-Identifier: Apache-2.0
"""Real images through image_probe, PIL and Transformers' ViT processor.

usage: compare_images.py IMAGE_PROBE [--seed N]

The images: scikit-learn's two photographs, whole and in random parts, written
anew as PNG and JPEG of every kind; every PNG and JPEG that the oracle's packages
carry; and MNIST digits at several sizes; half of the parts are to be turned, by
their EXIF. Decoded pixels must be those of Transformers' load_image; the
processor's output may differ by 1/255 of the range before normalisation.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import sysconfig
import tempfile

sys.dont_write_bytecode = True
import numpy
import transformers
from PIL import Image
from safetensors.numpy import load_file
from transformers.image_utils import load_image

import make_mnist

PACKAGES = pathlib.Path(sysconfig.get_path("purelib"))
TOLERANCE = 1 / 255
CONFIGS = {
    "ViTImageProcessor's defaults": {},
    "bicubic, ImageNet's mean": {
        "size": {"height": 96, "width": 96}, "resample": 3,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225]},
    "shortest edge and crop": {
        "size": {"shortest_edge": 80}, "do_center_crop": True,
        "crop_size": {"height": 72, "width": 72}},
    "nearest": {"size": 50, "resample": 0},
    "Lanczos, upscaled": {"size": 700, "resample": 1, "limit": 12},
    "bytes": {"size": 33, "do_rescale": False, "do_normalize": False},
}
KINDS = [
    (".png", {}), (".jpg", {"quality": 95, "subsampling": 0}),
    (".jpg", {"quality": 75}), (".jpg", {"quality": 30, "progressive": True}),
    (".jpg", {"quality": 85, "optimize": True, "subsampling": 1})]


def photographs(chance, folder):
    for name in ("china", "flower"):
        path = PACKAGES / "sklearn" / "datasets" / "images" / f"{name}.jpg"
        yield path
        photo = Image.open(path)
        for number, (suffix, options) in enumerate(KINDS * 3):
            left, top = chance.randrange(400), chance.randrange(300)
            width, height = chance.randrange(9, 240), chance.randrange(9, 120)
            part = photo.crop((left, top, left + width, top + height))
            if chance.random() < 0.3:
                part = part.convert(chance.choice(
                    ["L", "CMYK"] if suffix == ".jpg" else
                    ["L", "P", "LA", "RGBA", "1", "I;16"]))
            target = folder / f"{name}{number}{suffix}"
            if chance.random() < 0.5:
                exif = Image.Exif()
                exif[0x0112] = chance.randrange(1, 9)
                options = options | {"exif": exif}
            part.save(target, **options)
            yield target


def digits(chance, folder):
    images, _ = make_mnist.digits()
    for number in range(12):
        side = chance.choice([28, 56, 100, 225])
        digit = Image.fromarray(images[chance.randrange(len(images))])
        target = folder / f"digit{number}{chance.choice(['.png', '.jpg'])}"
        digit.resize((side, side + number)).save(target)
        yield target


def packaged():
    for pattern in ("*.png", "*.jpg", "*.jpeg"):
        yield from sorted(PACKAGES.rglob(pattern))


def run_probe(probe, settings, files, folder):
    size = settings.get("crop_size") or settings.get("size", 224)
    side = size if isinstance(size, int) else size["height"]
    transformers.ViTConfig(image_size=side, patch_size=1,
                           num_labels=2).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "files").write_text("".join(f"{file}\n" for file in files))
    output = folder / "out.safetensors"
    subprocess.run([probe, "--model", folder, "--files", folder / "files",
                    "--output", output], check=True)
    return load_file(output)


def range_of(settings):
    """What 1 is in units of the pixels before normalisation."""
    unit = 1 if settings.get("do_rescale", True) else 1 / 255
    deviation = (numpy.array(settings.get("image_std", [0.5] * 3))
                 if settings.get("do_normalize", True) else numpy.ones(3))
    return unit * deviation[:, None, None]


def compare(probe, title, settings, files):
    settings = dict(settings)
    files = files[:settings.pop("limit", None)]
    with tempfile.TemporaryDirectory() as folder:
        ours = run_probe(probe, settings, files, pathlib.Path(folder))
    processor = transformers.ViTImageProcessorPil(**settings)
    worst_rgb, worst, failures = 0, 0.0, []
    for number, file in enumerate(files):
        image = load_image(str(file))
        rgb = numpy.abs(ours[f"rgb.{number}"].astype(int)
                        - numpy.array(image).astype(int)).max()
        theirs = processor(image, return_tensors="np")["pixel_values"][0]
        scaled = (ours[f"pixels.{number}"].astype(float)
                  - theirs.astype(float)) * range_of(settings)
        difference = numpy.abs(scaled).max()
        worst_rgb, worst = max(worst_rgb, rgb), max(worst, difference)
        if rgb > 0 or not difference <= TOLERANCE:
            failures.append(f"{title}: {file}: decoded {rgb}, processed "
                            f"{difference:.3e}")
    print(f"{title}: {len(files)} images, decoded pixels differ by at most "
          f"{worst_rgb}, processed ones by {worst:.1e}")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = (options.seed if options.seed is not None
            else random.randrange(10**6))
    print("seed", seed)
    chance = random.Random(seed)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = [*photographs(chance, folder), *digits(chance, folder),
                 *packaged()]
        for title, settings in CONFIGS.items():
            failures += compare(options.probe, title, settings, files)
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
