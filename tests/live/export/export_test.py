# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp and mlx-lm compute from exports, against Transformers + PEFT:
random small models of each family, and the tokenizers they have."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unicodedata
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(TESTS / "golden"), str(HERE.parent / "text")]

import cases
import corpus
import llama_cpp
import mlx.core as mx
import mlx_lm.utils
import numpy as np
import oracle
import tokenizers
import torch
import transformers
from mlx_lm.tuner.utils import load_adapters
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

WORKER = pathlib.Path(os.environ["MPSD_BIN_DIR"]) / "mpsd-worker"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPLIT = (ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|"
         rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s|%s|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {
    "llama-bpe": SPLIT % r"\p{N}{1,3}", "dbrx": SPLIT % r"\p{N}{1,3}",
    "qwen2": SPLIT % r"\p{N}",
    "gpt-4o": CASED % (ENDINGS + "?", ENDINGS + "?", r"\p{N}{1,3}"),
    "tekken": CASED % ("", "", r"\p{N}"),
}
# The real models' kinds; each kind of tokenizer once at least.
KINDS = {"llama2": "pieces", "llama3": "llama-bpe", "llama_options": "gpt-2",
         "mistral": "tekken", "mistral_window": "pieces", "qwen2": "qwen2",
         "qwen2_head": "qwen2", "qwen3": "qwen2", "smollm3": "llama-bpe",
         "granite": "smollm", "olmo2": "dbrx", "olmo3": "dbrx",
         "gemma2": "bare-pieces", "gemma3": "bare-pieces", "phi3": "gpt-4o",
         "smollm": "smollm"}
# What llama.cpp assumes of a family, in place of the case's own.
SHAPES = {
    "smollm3": dict(num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0],
                    use_sliding_window=False, sliding_window=None),
    "olmo3": dict(num_hidden_layers=4, layer_types=(
        ["sliding_attention"] * 3 + ["full_attention"]), rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=1000.0),
            full_attention=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                original_max_position_embeddings=16))),
    "gemma2": dict(query_pre_attn_scalar=32),
    "gemma3": dict(num_hidden_layers=6, query_pre_attn_scalar=32, layer_types=(
        ["sliding_attention"] * 5 + ["full_attention"])),
    # llama.cpp has no windows of these
    "mistral_window": dict(sliding_window=None),
    "phi3": dict(head_dim=None, sliding_window=None, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
        short_factor=[1.0 + 0.1 * i for i in range(12)],
        long_factor=[1.5 + 0.2 * i for i in range(12)])),
}
VOCABULARY = 448
TEXTS = corpus.EDGES + [" ".join(corpus.WORDS)]


def make_tokenizer(kind, folder):
    special = ["<unk>", "<s>", "</s>", "<|im_end|>"]
    if kind.endswith("pieces"):
        tokenizer = tokenizers.Tokenizer(models.BPE(
            unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        steps = [normalizers.Replace(" ", "▁")]
        if kind == "pieces":
            steps.insert(0, normalizers.Prepend("▁"))
        tokenizer.normalizer = normalizers.Sequence(steps)
        special += [f"<0x{i:02X}>" for i in range(256)]
        alphabet = []
    else:
        tokenizer = tokenizers.Tokenizer(models.BPE(
            ignore_merges=kind == "llama-bpe"))
        parts = []
        if kind in SPLITS:
            parts.append(pre_tokenizers.Split(
                tokenizers.Regex(SPLITS[kind]), "isolated"))
        if kind == "smollm":
            parts.append(pre_tokenizers.Digits(individual_digits=True))
        parts.append(pre_tokenizers.ByteLevel(
            add_prefix_space=False, use_regex=kind not in SPLITS))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 8,
                                  special_tokens=special, show_progress=False,
                                  initial_alphabet=alphabet)
    tokenizer.train_from_iterator([" ".join(corpus.WORDS)] * 3, trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:4]  # bytes are plain tokens
    (folder / "tokenizer.json").write_text(json.dumps(state))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>",
        eos_token="</s>", unk_token="<unk>", chat_template="{{ messages }}")))


def make_model(name, folder):
    model_type, shape = cases.CASES[name]["config"]
    shape = {**shape, "hidden_size": 64, "intermediate_size": 96,
             "num_attention_heads": 2, "num_key_value_heads": 1,
             "head_dim": 32, "vocab_size": VOCABULARY, **SHAPES.get(name, {})}
    if shape["head_dim"] is None:
        del shape["head_dim"]
    generator = torch.Generator().manual_seed(len(name))
    model = oracle.make_model(model_type, shape, generator)
    oracle.save_model(model, folder, cases.CASES[name])
    make_tokenizer(KINDS[name], folder)
    return generator


def export(kind, model, out, *more):
    done = subprocess.run(
        [WORKER, "--merge", "--format", kind, "--model", model, "--out", out,
         *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def off(ours, theirs):
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


class ExportTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def make(self, name):
        base, adapter = self.folder / name, self.folder / f"{name}-adapter"
        generator = make_model(name, base)
        oracle.make_adapter(base, cases.CASES[name]["lora"], adapter, generator)
        ids = torch.randint(4, VOCABULARY - 8, (24,), generator=generator)
        return base, adapter, ids

    def check_tokens(self, llama, base):
        tokenizer = transformers.AutoTokenizer.from_pretrained(base)
        for text in TEXTS:
            # A null ends a text of C; llama.cpp does not compose characters.
            if "\0" in text or unicodedata.normalize("NFC", text) != text:
                continue
            ours = llama.tokenize(text.encode(), add_bos=False, special=True)
            theirs = tokenizer.encode(text, add_special_tokens=False)
            self.assertEqual(theirs, ours, repr(text))

    def check_llama(self, name, kind, limit):
        base, adapter, ids = self.make(name)
        out = export(kind, base, self.folder / kind / name, "--adapter",
                     adapter)
        file, = out.glob("*.gguf")
        llama = llama_cpp.Llama(str(file), n_ctx=64, logits_all=True,
                                verbose=False)
        llama.eval(ids.tolist())
        tuned = oracle.load_adapter(base, adapter).merge_and_unload().eval()
        with torch.no_grad():
            theirs = tuned(ids[None]).logits[0].numpy()
        self.assertLess(off(llama.scores[:len(ids)], theirs), limit)
        self.check_tokens(llama, base)
        # llama.cpp chooses the factors of longrope by n_ctx, once.
        if kind != "gguf-f16" or name == "phi3":
            return
        theirs = tuned.generate(ids[None, :12], max_new_tokens=12,
                                do_sample=False, eos_token_id=None)[0, 12:]
        llama.reset()
        ours = llama.generate(ids[:12].tolist(), temp=0.0, repeat_penalty=1.0)
        self.assertEqual(theirs.tolist(), [next(ours) for _ in range(12)])

    def test_llama_cpp_computes_each_family(self):
        for name in KINDS:
            with self.subTest(name):
                self.check_llama(name, "gguf-f16", 1e-2)

    def test_other_types_of_matrices(self):
        self.check_llama("qwen3", "gguf-bf16", 2e-2)
        self.check_llama("smollm", "gguf-q8_0", 5e-2)

    def test_a_model_trained_whole_needs_no_adapter(self):
        base, _, _ = self.make("llama3")
        out = export("gguf-q8_0", base, self.folder / "whole")
        self.assertEqual({"model-Q8_0.gguf", "Modelfile"},
                         {file.name for file in out.iterdir()})

    def test_mlx_lm_computes_with_the_adapter_what_peft_does(self):
        mx.set_default_device(mx.cpu)
        for name in ("llama3", "mistral", "qwen2", "granite", "olmo2"):
            with self.subTest(name):
                base, adapter, ids = self.make(name)
                tuned = oracle.load_adapter(base, adapter).eval()
                with torch.no_grad():
                    theirs = tuned(ids[None]).logits[0].numpy()
                for kind in ("mlx-adapter", "merged"):
                    out = export(kind, base, self.folder / kind / name,
                                 "--adapter", adapter)
                    model, _ = mlx_lm.utils.load_model(
                        base if kind == "mlx-adapter" else out)
                    if kind == "mlx-adapter":
                        load_adapters(model, str(out))
                    model.eval()
                    ours = np.array(model(mx.array(ids.numpy())[None])[0])
                    self.assertLess(off(ours, theirs), 1e-5, kind)


if __name__ == "__main__":
    unittest.main()
