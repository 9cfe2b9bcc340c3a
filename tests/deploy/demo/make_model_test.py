# SPDX-License-Identifier: Apache-2.0
"""Run as: make_model_test.py FOLDER, where FOLDER holds make_model.py.

Converts a tiny GGUF file written here; its Q and K rows are reordered the way
llama.cpp's convert_hf_to_gguf.py (LlamaModel.permute) does.
"""

import json
import pathlib
import struct
import sys
import tempfile
import unittest

import gguf
import numpy as np

sys.path.insert(0, sys.argv.pop(1))
import make_model  # noqa: E402

HIDDEN, HEADS, KV_HEADS, INTER, VOCAB = 32, 4, 2, 64, 6
TOKENS = ["<end>", "<user>", "a", "b", "ab", "\u0120"]


def llama_cpp_permute(rows, heads):
    return (rows.reshape(heads, 2, rows.shape[0] // heads // 2,
                         *rows.shape[1:])
            .swapaxes(1, 2).reshape(rows.shape))


def hugging_face_tensors():
    """A one-layer model with values that bfloat16 holds exactly."""
    kv_size = HIDDEN // HEADS * KV_HEADS
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (VOCAB, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        layer + "input_layernorm.weight": (HIDDEN,),
        layer + "post_attention_layernorm.weight": (HIDDEN,),
        layer + "self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        layer + "self_attn.k_proj.weight": (kv_size, HIDDEN),
        layer + "self_attn.v_proj.weight": (kv_size, HIDDEN),
        layer + "self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        layer + "mlp.gate_proj.weight": (INTER, HIDDEN),
        layer + "mlp.up_proj.weight": (INTER, HIDDEN),
        layer + "mlp.down_proj.weight": (HIDDEN, INTER),
    }
    random = np.random.default_rng(3)
    return {name: random.integers(-128, 128, shape).astype(np.float32)
            for name, shape in shapes.items()}


GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
    "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def gguf_name(name):
    module = name.split(".")[-2]
    return GGUF_NAMES.get(name) or f"blk.0.{GGUF_NAMES[module]}.weight"


def write_gguf(path, tensors):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(12345.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_pad_token_id(0)
    writer.add_chat_template("{{ messages }}")
    for name, values in tensors.items():
        if "q_proj" in name:
            values = llama_cpp_permute(values, HEADS)
        elif "k_proj" in name:
            values = llama_cpp_permute(values, KV_HEADS)
        writer.add_tensor(gguf_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_safetensors(path):
    data = path.read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        bits = np.frombuffer(body[begin:end], "<u2").astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(entry["shape"])
        assert entry["dtype"] == "BF16"
    return tensors


class Bfloat16(unittest.TestCase):

    def test_rounds_to_nearest_and_ties_to_even(self):
        # 1 + k/128 are bfloat16 values; halfway points lie between them.
        values = [1, 1 + 1 / 256, 1 + 3 / 256, 1 + 1.01 / 256, -2.5, 0]
        bits = make_model.bfloat16_bits(np.array(values, np.float32))
        back = (bits.astype(np.uint32) << 16).view(np.float32)
        self.assertEqual(back.tolist(), [1, 1, 1 + 2 / 128, 1 + 1 / 128,
                                         -2.5, 0])


class Convert(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.out = pathlib.Path(folder) / "model"
        cls.tensors = hugging_face_tensors()
        path = pathlib.Path(folder) / "tiny.gguf"
        write_gguf(path, cls.tensors)
        make_model.convert(make_model.Source(path), cls.out)

    def json(self, name):
        return json.loads((self.out / name).read_text(encoding="utf-8"))

    def test_weights_come_back_under_their_names_in_their_row_order(self):
        written = read_safetensors(self.out / "model.safetensors")
        self.assertEqual(set(written), set(self.tensors))
        for name, values in self.tensors.items():
            np.testing.assert_array_equal(written[name], values, name)

    def test_q_rows_are_reordered_at_all(self):
        rows = self.tensors["model.layers.0.self_attn.q_proj.weight"]
        self.assertFalse(np.array_equal(llama_cpp_permute(rows, HEADS), rows))

    def test_config_says_what_the_file_says(self):
        config = self.json("config.json")
        expected = {
            "model_type": "llama", "hidden_size": HIDDEN, "head_dim": 8,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
            "num_hidden_layers": 1, "intermediate_size": INTER,
            "vocab_size": VOCAB, "rope_theta": 12345.0, "rms_norm_eps": 1e-5,
            "max_position_embeddings": 128, "tie_word_embeddings": True,
            "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": 0}
        self.assertEqual({key: config[key] for key in expected}, expected)

    def test_tokenizer_has_the_tokens_merges_and_specials(self):
        tokenizer = self.json("tokenizer.json")
        self.assertEqual(tokenizer["model"]["vocab"],
                         {token: i for i, token in enumerate(TOKENS)})
        self.assertEqual(tokenizer["model"]["merges"], ["a b"])
        self.assertEqual([(token["id"], token["content"])
                          for token in tokenizer["added_tokens"]],
                         [(0, "<end>"), (1, "<user>")])
        settings = self.json("tokenizer_config.json")
        self.assertEqual(settings["chat_template"], "{{ messages }}")
        self.assertEqual(settings["eos_token"], "<end>")
        self.assertEqual(settings["bos_token"], "<user>")


if __name__ == "__main__":
    unittest.main()
