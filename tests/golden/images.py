# SPDX-License-Identifier: Apache-2.0
"""Golden images: small files of every kind that PNG, JPEG and WebP have, what PIL
decodes of them, what it resizes, and what Transformers' ViT processor makes.

All lie in images.safetensors: `file.NAME` the bytes of a file, `rgb.NAME` its
pixels, `resized.FILTER.HxW` those of `file.photo`, `pixels.CASE` [C, H, W] what
the processor of `config.CASE` (JSON) makes of `file.photo`.
"""

import io
import json
import struct
import zlib

import numpy
import torch
import transformers
from PIL import Image, ImageOps

SIZES = [(7, 5), (16, 16), (23, 31), (40, 29), (64, 11), (1, 1), (9, 31),
         (8, 29)]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
         (1, 0, 2, 2), (0, 1, 1, 2)]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PROCESSORS = {
    "default": {},
    "square": {"size": 24, "resample": 3, "image_mean": [0.485, 0.456, 0.406],
               "image_std": [0.229, 0.224, 0.225]},
    "nearest": {"size": {"height": 16, "width": 16}, "resample": 0},
    "crop": {"size": {"shortest_edge": 19}, "do_center_crop": True,
             "crop_size": {"height": 16, "width": 16}},
    "padded_crop": {"do_resize": False, "do_center_crop": True,
                    "crop_size": {"height": 40, "width": 40}},
    "bytes": {"size": 16, "do_rescale": False, "do_normalize": False},
    "signed": {"size": 16, "rescale_factor": 1 / 127.5, "image_mean": 1.0,
               "image_std": 1.0},
}


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data
            + struct.pack(">I", zlib.crc32(kind + data)))


def png_rows(samples, depth, step=(0, 0, 1, 1)):
    """Unfiltered rows of one pass, samples packed to bytes."""
    left, top, across, down = step
    part = samples[top::down, left::across]
    if 0 in part.shape:
        return b""
    rows = []
    for row in part.reshape(part.shape[0], -1):
        if depth == 16:
            data = row.astype(">u2").tobytes()
        elif depth == 8:
            data = row.astype("u1").tobytes()
        else:
            bits = "".join(format(v, f"0{depth}b") for v in row)
            bits += "0" * (-len(bits) % 8)
            data = bytes(int(bits[i:i + 8], 2)
                         for i in range(0, len(bits), 8))
        rows.append(b"\0" + data)
    return b"".join(rows)


def png(samples, depth, colour, interlaced=False, extra=b""):
    height, width = samples.shape[:2]
    steps = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b"".join(png_rows(samples, depth, step) for step in steps)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0,
                         int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
            + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def png_files(random):
    def samples(colour, depth):
        shape = (9, 13, CHANNELS[colour])
        return random.integers(0, 2 ** depth, shape)

    palette = chunk(b"PLTE", random.bytes(3 * 256))
    files = {}
    for depth in (1, 2, 4, 8, 16):
        files[f"grey{depth}"] = png(samples(0, depth), depth, 0)
    files["grey16_small"] = png(samples(0, 8), 16, 0)
    for depth in (8, 16):
        files[f"grey_alpha{depth}"] = png(samples(4, depth), depth, 4)
        files[f"rgb{depth}"] = png(samples(2, depth), depth, 2)
        files[f"rgba{depth}"] = png(samples(6, depth), depth, 6)
    for depth in (1, 2, 4, 8):
        colours = chunk(b"PLTE", palette[8:8 + 3 * 2 ** depth])
        files[f"palette{depth}"] = png(samples(3, depth), depth, 3,
                                       extra=colours)
    files["palette_clear"] = png(
        samples(3, 8), 8, 3, extra=palette + chunk(b"tRNS", random.bytes(200)))
    files["grey_clear"] = png(samples(0, 8), 8, 0,
                              extra=chunk(b"tRNS", b"\0\7"))
    files["rgb_clear"] = png(samples(2, 8), 8, 2,
                             extra=chunk(b"tRNS", b"\0\7\0\7\0\7"))
    files["gamma"] = png(samples(2, 8), 8, 2,
                         extra=chunk(b"gAMA", struct.pack(">I", 100000)))
    files["interlaced"] = png(samples(6, 8), 8, 6, interlaced=True)
    files["interlaced2"] = png(samples(0, 2), 2, 0, interlaced=True)
    return files


def picture(height, width, random):
    """Smooth colours with an edge and some noise: what a photo has."""
    y, x = numpy.mgrid[0:height, 0:width] / max(height, width)
    bands = [numpy.sin(7 * x + 3 * y), numpy.cos(5 * y - 4 * x), x * y * 2 - 1]
    image = numpy.stack(bands, -1) * 90 + 128
    image[height // 3:height // 2, width // 4:width // 2] = (250, 20, 40)
    image += random.normal(0, 6, image.shape)
    return Image.fromarray(image.clip(0, 255).astype(numpy.uint8))


def jpeg_files(random):
    image = picture(27, 37, random)
    exif = Image.Exif()
    exif[0x0112] = 6  # lay on its side
    kinds = {
        "jpeg420": dict(subsampling=2), "jpeg422": dict(subsampling=1),
        "jpeg444": dict(subsampling=0), "progressive": dict(progressive=True),
        "turned": dict(exif=exif), "poor": dict(quality=8),
        "restarts": dict(restart_marker_blocks=1)}
    files = {name: saved(image, **options) for name, options in kinds.items()}
    files["jpeg_grey"] = saved(image.convert("L"))
    files["jpeg_cmyk"] = saved(image.convert("CMYK"))
    files["photo"] = saved(picture(29, 40, random), quality=92)
    return files


def exif_of(orientation, kind="<H", order=b"II", more=b"", count=1):
    """A TIFF file with an Orientation of that struct format; `more` comes
    before it, entries of 12 bytes."""
    types = {"H": 3, "L": 4, "b": 6, "B": 1, "f": 11}
    end = "<" if order == b"II" else ">"
    value = struct.pack(end + kind[-1], orientation).ljust(4, b"\0")
    return (order + struct.pack(end + "HLH", 42, 8, len(more) // 12 + 1) + more
            + struct.pack(end + "HHL", 0x0112, types[kind[-1]], count) + value
            + struct.pack(end + "L", 0))


def segment(data):
    return b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data


def turned_files(random):
    """As cameras and programs write down how an image is to be turned."""
    jpeg = saved(picture(7, 11, random), quality=90)
    xmp = b"http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation=\"%d\"/>"
    name = b"Exif\0\0"
    long = struct.pack("<HHLL", 0x010F, 2, 6, 0)  # its text lies elsewhere
    segments = {f"exif{i}": name + exif_of(i) for i in range(10)} | {
        "exif_motorola": name + exif_of(5, order=b"MM"),
        "exif_long": name + exif_of(7, "<L"),
        "exif_twice_named": name * 2 + exif_of(8),
        "exif_second": name + exif_of(3, more=long),
        "exif_first_wins": name + exif_of(
            3, more=struct.pack("<HHLL", 0x0112, 3, 1, 6)),
        "exif_unknown_type": name + exif_of(
            3, more=struct.pack("<HHLL", 0x0112, 99, 1, 6))}
    files = {f"turned_{key}": jpeg[:2] + segment(data) + jpeg[2:]
             for key, data in segments.items()}
    files["turned_both"] = (jpeg[:2] + segment(xmp % 6) + segment(
        name + exif_of(3)) + jpeg[2:])
    files["turned_split"] = (jpeg[:2] + segment(name + exif_of(3)[:9]) + segment(
        name + exif_of(3)[9:]) + jpeg[2:])
    samples = random.integers(0, 256, (3, 5, 3))
    chunks = {
        "png6": chunk(b"eXIf", exif_of(6)),
        "png_motorola": chunk(b"eXIf", exif_of(7, order=b"MM"))}
    for key, extra in chunks.items():
        files[f"turned_{key}"] = png(samples, 8, 2, extra=extra)
    files["turned_png_late"] = png(samples, 8, 2)[:-12] + chunk(
        b"eXIf", exif_of(2)) + chunk(b"IEND", b"")
    return files


def webp_files(random):
    image = picture(11, 18, random)
    clear = image.copy()
    clear.putalpha(Image.fromarray(
        random.integers(0, 256, (11, 18), dtype=numpy.uint8)))
    exif = Image.Exif()
    exif[0x0112] = 8
    kinds = {"webp": {}, "webp_lossless": dict(lossless=True),
             "turned_webp": dict(exif=exif)}
    files = {name: saved(image, "WEBP", **options)
             for name, options in kinds.items()}
    files["webp_clear"] = saved(clear, "WEBP")
    files["webp_lossless_clear"] = saved(clear, "WEBP", lossless=True)
    return files


def saved(image, kind="JPEG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def opened(data):
    """As Transformers' load_image."""
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def as_bytes(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def processor(settings):
    return transformers.ViTImageProcessorPil(**settings)


def make():
    random = numpy.random.default_rng(4)
    files = png_files(random) | jpeg_files(random) | turned_files(
        random) | webp_files(random)
    tensors = {}
    for name, data in files.items():
        tensors[f"file.{name}"] = as_bytes(data)
        tensors[f"rgb.{name}"] = torch.from_numpy(numpy.array(opened(data)))
    photo = opened(files["photo"])
    for filter in range(6):  # what preprocessor_config.json may name
        for height, width in SIZES:
            small = numpy.array(photo.resize((width, height), filter))
            name = f"resized.{filter}.{height}x{width}"
            tensors[name] = torch.from_numpy(small)
    for name, settings in PROCESSORS.items():
        pixels = processor(settings)(photo, return_tensors="pt")["pixel_values"]
        if name == "default":  # 224 by 224: a strip of it will do
            pixels = pixels[:, :, 100:104]
        tensors[f"config.{name}"] = as_bytes(json.dumps(settings).encode())
        tensors[f"pixels.{name}"] = pixels[0]
    return tensors
