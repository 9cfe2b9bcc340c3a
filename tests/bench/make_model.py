#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model folder of Llama-2-7B's shape with random weights in bf16.

    make_model.py TOKENIZER OUT [--layers N]

TOKENIZER is a folder whose tokenizer files are copied. Writes shards of a few
GB, a tensor at a time: 13.5 GB in all. For what must be measured at size, such
as loading and quantising.
"""

import argparse
import json
import pathlib
import shutil
import struct

import torch

HIDDEN, INNER, VOCAB = 4096, 11008, 32000
LAYERS_A_SHARD = 11


def tensors(layers):
    """(name, shape), in the order of the files."""
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for i in range(layers):
        at = f"model.layers.{i}."
        for name in "qkvo":
            yield f"{at}self_attn.{name}_proj.weight", (HIDDEN, HIDDEN)
        for name in ("gate", "up"):
            yield f"{at}mlp.{name}_proj.weight", (INNER, HIDDEN)
        yield f"{at}mlp.down_proj.weight", (HIDDEN, INNER)
        for name in ("input", "post_attention"):
            yield f"{at}{name}_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCAB, HIDDEN)


def write_shard(path, chosen):
    header, end = {}, 0
    for name, shape in chosen:
        begin, end = end, end + 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in chosen:
            values = torch.ones(shape) if len(shape) == 1 \
                else torch.randn(shape).mul_(0.02)
            file.write(values.bfloat16().view(torch.int16).numpy())
    return end


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.tokenizer.iterdir():
        if file.name.startswith(("tokenizer", "special_tokens")):
            shutil.copy(file, args.out)
    (args.out / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_hidden_layers": args.layers,
        "num_attention_heads": 32, "num_key_value_heads": 32,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16"}, indent=1))
    everything = list(tensors(args.layers))
    size = 9 * LAYERS_A_SHARD
    shards = [everything[i:i + size] for i in range(0, len(everything), size)]
    total, weight_map = 0, {}
    for i, chosen in enumerate(shards):
        name = f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        total += write_shard(args.out / name, chosen)
        weight_map.update({tensor: name for tensor, _ in chosen})
    (args.out / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": total}, "weight_map": weight_map}))
    print(f"{args.out}: {total} bytes of weights")


if __name__ == "__main__":
    main()
