# SPDX-License-Identifier: Apache-2.0
"""Jobs whose tensors are far larger than the worker itself: model folders of
random weights, rows and a job.json, by Python's own library."""

import array
import json
import math
import pathlib
import random
import shutil
import struct

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"


def decoder(kind, hidden, inner, layers, heads, kv_heads, vocab, **more):
    return {"model_type": kind, "hidden_size": hidden,
            "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "vocab_size": vocab, "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1,
            "eos_token_id": 2, "pad_token_id": 0, "hidden_act": "silu",
            "use_sliding_window": False, "sliding_window": None,
            "tie_word_embeddings": True, "head_dim": hidden // heads, **more}


def encoder(kind, hidden, inner, layers, heads, **more):
    """With its real dropouts."""
    golden = json.loads((GOLDEN / kind / "model/config.json").read_text())
    names = ({"dim": hidden, "hidden_dim": inner, "n_layers": layers,
              "n_heads": heads} if kind == "distilbert" else
             {"hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": heads})
    labels = {"id2label": {"0": "no", "1": "yes"},
              "label2id": {"no": 0, "yes": 1},
              "problem_type": "single_label_classification"}
    sizes = ({"image_size": 224, "patch_size": 16} if kind == "vit" else
             {"vocab_size": 2000, "max_position_embeddings": 514})
    return {**golden, **names, **sizes, **labels, **more}


def decoder_tensors(config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    width = config.get("head_dim", hidden // config["num_attention_heads"])
    queries = config["num_attention_heads"] * width
    keys = config["num_key_value_heads"] * width
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for name, out in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{at}self_attn.{name}_proj.weight", (out, hidden)
            if config["model_type"] == "qwen2":
                yield f"{at}self_attn.{name}_proj.bias", (out,)
        yield f"{at}self_attn.o_proj.weight", (hidden, queries)
        if config["model_type"] == "qwen3":
            yield f"{at}self_attn.q_norm.weight", (width,)
            yield f"{at}self_attn.k_norm.weight", (width,)
        for name in ("gate", "up"):
            yield f"{at}mlp.{name}_proj.weight", (inner, hidden)
        yield f"{at}mlp.down_proj.weight", (hidden, inner)
        for name in ("input", "post_attention"):
            yield f"{at}{name}_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)


def encoder_tensors(config):
    """Those of the golden model, with this one's widths and layers."""
    kind = config["model_type"]
    file = (GOLDEN / kind / "model/model.safetensors").read_bytes()
    length, = struct.unpack("<Q", file[:8])
    header = json.loads(file[8:8 + length])
    golden = json.loads((GOLDEN / kind / "model/config.json").read_text())
    fields = (("dim", "hidden_dim") if kind == "distilbert" else
              ("hidden_size", "intermediate_size"))
    fields += ("vocab_size", "max_position_embeddings")
    sizes = {golden[field]: config[field] for field in fields}
    layers = config.get("num_hidden_layers", config.get("n_layers"))
    for name, entry in header.items():
        if name == "__metadata__" or "layer.1." in name:
            continue
        if "classifier" in name and "dense" not in name and \
                "pre_classifier" not in name:
            continue  # the task's own
        shape = tuple(sizes.get(size, size) for size in entry["shape"])
        for i in range(layers if "layer.0." in name else 1):
            yield name.replace("layer.0.", f"layer.{i}."), shape


def write_weights(path, tensors):
    values = random.Random(1)
    block = array.array(
        "f", [values.gauss(0, 0.02) for _ in range(1 << 16)]).tobytes()
    header, end = {}, 0
    for name, shape in tensors:
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while end > 0:
            file.write(block[:end])
            end -= len(block)


def merged(base, changes):
    """`changes` as a merge patch of `base`."""
    out = dict(base)
    for key, value in changes.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = value
    return out


def write_job(folder, config, rows, length, job, eval_rows=0, steps=3):
    """job.json in `folder`, whose micro-batches have `rows` rows of `length`
    tokens; LoRA of every linear unless `job`, a merge patch, says otherwise."""
    shutil.rmtree(folder, ignore_errors=True)
    model = folder / "model"
    model.mkdir(parents=True)
    images = config["model_type"] == "vit"
    decodes = "rope_theta" in config
    classes = images or not decodes or job.get("task") == "SEQ_CLS"
    if not images:
        for file in (ROOT / "tests/e2e/testdata").iterdir():
            shutil.copy(file, model / file.name)
    (model / "config.json").write_text(json.dumps(config))
    if not job.get("from_scratch"):
        write_weights(model / "model.safetensors",
                      decoder_tensors(config) if decodes
                      else encoder_tensors(config))
    text = "abcdefgh " * (length // 2)

    def data(name, count):
        if images:
            return write_images(folder / name, count)
        row = {"text": text, "label": 0} if classes else {"text": text}
        lines = [json.dumps({**row, "label": i % 2} if classes else row)
                 for i in range(count)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return f"{name}.jsonl"

    spec = {"model": "model", "device": "cpu",
            "dataset": {"train": data("train", rows * steps)},
            "lora": {"r": 8, "target_modules": "all-linear"},
            "training": {"max_steps": steps, "learning_rate": 1e-3,
                         "per_device_train_batch_size": rows}}
    if not images:
        spec["training"]["max_length"] = length
    if classes:
        spec["task"] = "IMAGE_CLS" if images else "SEQ_CLS"
        spec["classification"] = {"ignore_mismatched_sizes": True}
    if eval_rows:
        spec["dataset"]["eval"] = data("eval", eval_rows)
        spec["training"]["per_device_eval_batch_size"] = eval_rows
    spec = merged(spec, job)
    if spec.get("from_scratch"):
        spec.pop("classification", None)
    path = folder / "job.json"
    path.write_text(json.dumps(spec))
    return path


def write_images(folder, count):
    import harness  # of tests/e2e
    for i in range(count):
        name = ("no", "yes")[i % 2]
        harness.write_png(folder / name / f"{i}.png", (10 * i % 256, 90, 30),
                          size=64)
    return folder.name
