# SPDX-License-Identifier: Apache-2.0
"""Model folders whose tokenizer class, files and settings agree or not.

make_golden.py writes what AutoTokenizer makes of them into classes.json, the
live suite asks the newest one. A row: the folder next to this file with the
tokenizer.json (or "metaspace", made here), model_type, tokenizer_class, further
tokenizer_config.json, members of tokenizer.json that change, other files.
"""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

HERE = pathlib.Path(__file__).parent
TEXTS = ["Hello the world", "  the  Naïve\n2 HELLO 日本語", "<s>the</s> hello<x>",
         "[CLS] can't 123 the[MASK]", "\n", "<|end|>the <|end|> e\u0301té"]
PAIR = ["Hello the", "world"]
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def token(content, special=True, **flags):
    return AddedToken(content, special=special, **flags).__getstate__()


def metaspace():
    """As Llama 2's tokenizer.json, of a few words and bytes."""
    pieces = dict.fromkeys(["<unk>", "<s>", "</s>"] + [
        f"<0x{byte:02X}>" for byte in "\n<x>ï".encode()])
    merges = []
    for word in ("▁Hello", "▁the", "▁world", "▁hello", "▁▁"):
        pieces.update(dict.fromkeys(word))
        for end in range(2, len(word) + 1):
            pieces[word[:end]] = None
            merges.append((word[:end - 1], word[end - 1]))
    t = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)},
                             list(dict.fromkeys(merges)), unk_token="<unk>",
                             fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                         normalizers.Replace(" ", "▁")])
    t.post_processor = processors.TemplateProcessing(
        "<s> $A", "<s> $A $B:1", [("<s>", 1)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    return json.loads(t.to_str())


def rows():
    def row(base, kind, name, config={}, change={}, **files):
        config = {"tokenizer_class": name, **config} if name else config
        return {"base": base, "config": config, "change": change, "files": {
            "config.json": {"model_type": kind}, **files}}

    for more in ({}, {"legacy": False}, {"legacy": True}, {"legacy": None},
                 {"add_prefix_space": False},
                 {"add_prefix_space": None, "legacy": True}):
        yield row("metaspace", "llama", "LlamaTokenizer", {**LLAMA, **more})
        yield row("metaspace", "mistral", "LlamaTokenizerFast", {**LLAMA, **more})
    for name in ("LlamaTokenizerFast", "PreTrainedTokenizerFast", None,
                 "TokenizersBackend", "CodeLlamaTokenizer"):
        yield row("metaspace", "llama", name, {**LLAMA, "legacy": False})
    yield row("metaspace", "llama", "LlamaTokenizer")
    yield row("metaspace", "llama", "LlamaTokenizer", {"bos_token": None},
              {"post_processor": None})
    yield row("metaspace", "llama", "LlamaTokenizer", {
        **LLAMA, "pad_token": "<p>", "added_tokens_decoder": {
            "1": token("</s>"), "70": token("<x>", False)}},
        {"added_tokens": [{"id": 500, **token("the", False)}]})
    yield row("metaspace", "llama", "LlamaTokenizer", LLAMA, {}, **{
        "special_tokens_map.json": {"eos_token": token("<|end|>", lstrip=True)},
        "added_tokens.json": {"<x>": 600, "<|end|>": 599}})
    for kind, names in (
            ("llama", ("LlamaTokenizerFast", "GPT2Tokenizer",
                       "GPTNeoXTokenizerFast")),
            ("qwen2", ("PreTrainedTokenizerFast", "LlamaTokenizerFast", None,
                       "Qwen2Tokenizer")),
            ("qwen3", ("PreTrainedTokenizerFast", "LlamaTokenizerFast", None,
                       "Qwen2TokenizerFast", "GPT2Tokenizer")),
            ("roberta", ("RobertaTokenizer", None, "PreTrainedTokenizerFast",
                         "BartTokenizer", "LongformerTokenizerFast"))):
        for name in names:
            yield row("roberta", kind, name, {"eos_token": "<|end|>"})
            yield row("roberta", kind, name, {
                "add_prefix_space": True, "pad_token": "<|pad|>",
                "mask_token": {"__type": "AddedToken", **token(
                    "[MASK]", lstrip=True)}}, {"post_processor": None})
    yield row("roberta", "qwen3", "LlamaTokenizer",
              {"auto_map": {"AutoTokenizer": ["x.X", None]}})
    for kind, name in (("bert", "BertTokenizer"), ("bert", None),
                       ("distilbert", "DistilBertTokenizerFast"),
                       ("bert", "ElectraTokenizer"),
                       ("bert", "MobileBertTokenizer"),
                       ("bert", "SqueezeBertTokenizerFast"),
                       ("bert", "LayoutLMTokenizer"),
                       ("bert", "PreTrainedTokenizerFast")):
        yield row("wordpiece", kind, name)
        yield row("wordpiece", kind, name, {"do_lower_case": False},
                  {"post_processor": None})
    for more in ({"strip_accents": False}, {"tokenize_chinese_chars": False},
                 {"do_lower_case": False, "strip_accents": True},
                 {"cls_token": "the", "sep_token": "world"}):
        yield row("wordpiece", "bert", "BertTokenizer", more)
    for kind, name in (("bert", "PreTrainedTokenizerFast"),
                       ("llama", "BertTokenizer")):
        yield row("wordpiece", kind, None, {}, {"truncation": {
            "direction": "Left", "max_length": 5, "strategy": "LongestFirst",
            "stride": 0}}, **{"config.json": {
                "model_type": kind, "tokenizer_class": name}})
    for name in ("XLMRobertaTokenizer", "PreTrainedTokenizerFast"):
        yield row("unigram", "bert", name)
        yield row("unigram", "bert", name, {"add_prefix_space": False})
    yield row("unigram", "bert", "XLMRobertaTokenizer", {"add_prefix_space": None})
    for more in ({"bos_token": "the"}, {"bos_token": None},
                 {"add_bos_token": False, "additional_special_tokens": ["<x>"]}):
        yield row("metaspace", "llama", "CodeLlamaTokenizerFast", more,
                  {"post_processor": None} if "add_bos_token" in more else {})
    yield row("metaspace", "llama", "GemmaTokenizer")


def write(row, folder):
    """The model folder of a row."""
    base = HERE / row["base"] / "tokenizer.json"
    json_ = json.loads(base.read_text("utf-8")) if base.is_file() else metaspace()
    for name, value in {"tokenizer.json": {**json_, **row["change"]},
                        "tokenizer_config.json": row["config"],
                        **row["files"]}.items():
        (pathlib.Path(folder) / name).write_text(json.dumps(value), "utf-8")


def answers(auto):
    """What the oracle makes of a row's folder."""
    pair = auto([PAIR[0]], [PAIR[1]], return_token_type_ids=True)
    # mpsd refuses CodeLlama's pairs.
    pair = None if type(auto).__name__ == "CodeLlamaTokenizer" else [
        pair["input_ids"][0], pair["token_type_ids"][0]]
    cut = auto(TEXTS[1], truncation=True, max_length=6)["input_ids"]
    auto.backend_tokenizer.no_truncation()
    return {"ids": [auto(text, truncation=False)["input_ids"] for text in TEXTS],
            "plain": auto(TEXTS[0], add_special_tokens=False)["input_ids"],
            "pair": pair, "cut": cut, "size": len(auto)}
