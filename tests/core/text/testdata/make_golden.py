# SPDX-License-Identifier: Apache-2.0
"""Makes the golden data next to it with the pinned oracle's Python.

usage: make_golden.py            (build/pinned/bin/python, see tests/live)

bpe/, wordpiece/, unigram/, roberta/: small model folders, trained on the text
below. The trainers do not repeat themselves: a folder is made only when it is
not there. encodings.json: what `tokenizers` makes of texts. classifier.json:
what Transformers' tokenizer(text, pair, truncation=True) makes of texts and
pairs. classes.json: see tokenizer_classes.py. templates.json: what Transformers
renders. Offsets and spans are in bytes.
"""

import itertools
import json
import pathlib
import tempfile

import tokenizers
from tokenizers import (AddedToken, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

import tokenizer_classes

HERE = pathlib.Path(__file__).parent
TEXT = """the quick brown fox jumps over the lazy dog. the dog sleeps.
It's a small world, isn't it? don't panic! 1234567890 12 345
def main():\n    return {'key': [1, 2, 3]}\nstraße naïve café Zürich résumé
hello world, hello tokens; tokenization tokenizes the token's tokens
日本語 日本 中文 привет мир 😀 😃 👍
""".splitlines(keepends=True)
TEXTS = [
    "", " ", "hello", "Hello World", "the quick brown fox", "  two  spaces ",
    "line\nline\r\n\ttab", "don't it's 12345", "naïve café Zürich", "日本語 中文",
    "😀👍🏽", "unknown ☃ snowman", "<|user|>hi<|end|>", "[CLS] x [MASK]", "</s>a",
    "x<|extra|>y", "e\u0301\u00a0\u2028z", "tokenization" * 3,
]
CHATML = (
    "{%- for m in messages %}\n"
    "{{- '<|' + m.role + '|>' }}\n"
    "{%- if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}\n"
    "{%- else %}{{ m.content }}{{ eos_token }}{% endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}\n")


def bpe():
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(TEXT, trainers.BpeTrainer(
        vocab_size=340, show_progress=False,
        special_tokens=["<|end|>", "<|user|>", "<|assistant|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    # Stored in the file, and to be ignored.
    t.enable_truncation(4)
    t.enable_padding(length=32, pad_token="<|pad|>", pad_id=3)
    config = {"tokenizer_class": "PreTrainedTokenizerFast",
              "bos_token": None, "eos_token": "<|end|>",
              "pad_token": {"__type": "AddedToken", "content": "<|pad|>",
                            "lstrip": False, "normalized": False,
                            "rstrip": False, "single_word": False,
                            "special": True},
              "additional_special_tokens": ["<|user|>", "<|extra|>"],
              "add_bos_token": True, "chat_template": CHATML}
    return t, config


def wordpiece():
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(TEXT, trainers.WordPieceTrainer(
        vocab_size=160, show_progress=False, special_tokens=special))
    t.post_processor = processors.BertProcessing(
        ("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    config = {"tokenizer_class": "PreTrainedTokenizerFast",
              "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
              "pad_token": "[PAD]", "unk_token": "[UNK]"}
    return t, config


def unigram():
    t = tokenizers.Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC()])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(
        vocab_size=150, show_progress=False, unk_token="<unk>",
        special_tokens=["<s>", "</s>", "<unk>"]))
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    config = {"tokenizer_class": "PreTrainedTokenizerFast",
              "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
              "added_tokens_decoder": {
                  "0": AddedToken("<s>", special=True).__getstate__(),
                  "99": AddedToken("snowman", normalized=True).__getstate__()}}
    return t, config


def roberta():
    """bpe's vocabulary between RoBERTa's special tokens."""
    t = tokenizers.Tokenizer.from_file(str(HERE / "bpe" / "tokenizer.json"))
    t.no_truncation()
    t.no_padding()
    t.post_processor = processors.RobertaProcessing(
        ("<|end|>", t.token_to_id("<|end|>")),
        ("<|user|>", t.token_to_id("<|user|>")), trim_offsets=True)
    return t, {"tokenizer_class": "PreTrainedTokenizerFast",
               "cls_token": "<|user|>", "sep_token": "<|end|>",
               "pad_token": "<|pad|>"}


def write(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_cases(path, cases):
    """An array with a case a line."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def encodings(name):
    auto = AutoTokenizer.from_pretrained(str(HERE / name))
    raw = auto.backend_tokenizer
    raw.no_truncation()
    raw.no_padding()
    for text, special in itertools.product(TEXTS, (False, True)):
        e = raw.encode(text, add_special_tokens=special)
        starts = [0, *itertools.accumulate(len(c.encode()) for c in text)]
        yield {"folder": name, "text": text, "special": special, "ids": e.ids,
               "offsets": [[starts[b], starts[s]] for b, s in e.offsets],
               "decoded": raw.decode(e.ids, skip_special_tokens=False),
               "skipped": raw.decode(e.ids, skip_special_tokens=True)}


PAIRS = [
    ("hello world", None), ("", None), ("the quick brown fox jumps over", None),
    ("hello", "world"), ("", "the dog"), ("naïve café", ""),
    ("the quick brown fox jumps over the lazy dog", "hello"),
    ("hello", "tokenization tokenizes the token's tokens 12345"),
    ("the dog sleeps. don't panic!", "it's a small world, isn't it?"),
]


def classifier_inputs(name, side):
    auto = AutoTokenizer.from_pretrained(str(HERE / name), truncation_side=side)
    for (text, pair), length in itertools.product(PAIRS, (4, 5, 8, 11, 16, 64)):
        if length <= auto.num_special_tokens_to_add(pair is not None):
            continue  # No room for the texts: refused.
        kwargs = {"max_length": length, "return_token_type_ids": True}
        # In lists, as run_glue.py does: alone, an empty second text is none.
        texts = ([text],) if pair is None else ([text], [pair])
        e = auto(*texts, truncation=True, **kwargs)
        whole = auto(*texts, truncation=False)
        yield {"folder": name, "side": side, "text": text, "pair": pair,
               "max_length": length, "ids": e["input_ids"][0],
               "types": e["token_type_ids"][0],
               "truncated": len(whole["input_ids"][0]) > length}


def make_classifier_inputs():
    write_cases(HERE / "classifier.json", [
        case for make in (bpe, wordpiece, unigram, roberta) for side in ("right", "left")
        for case in classifier_inputs(make.__name__, side)])


def make_classes():
    cases = [{"metaspace": tokenizer_classes.metaspace(),
              "texts": tokenizer_classes.TEXTS, "two": tokenizer_classes.PAIR}]
    for row in tokenizer_classes.rows():
        with tempfile.TemporaryDirectory() as folder:
            tokenizer_classes.write(row, folder)
            auto = AutoTokenizer.from_pretrained(folder)
        cases.append({**row, **tokenizer_classes.answers(auto)})
    write_cases(HERE / "classes.json", cases)


def make_folder(make):
    folder = HERE / make.__name__
    if not folder.is_dir():
        tokenizer, config = make()
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        write(folder / "tokenizer_config.json", config)


def make_tokenizers():
    cases = []
    for make in (bpe, wordpiece, unigram, roberta):
        make_folder(make)
        cases += encodings(make.__name__)
    write_cases(HERE / "encodings.json", cases)


CHAT = [
    {"role": "system", "content": "Be é."},
    {"role": "user", "content": " Hi <b>'x'</b>\n"},
    {"role": "assistant", "content": "Ja 😀", "reasoning": "why",
     "tool_calls": [{"function": {"name": "f", "arguments": {
         "z": 1, "a": [1.0, None, True, 1e22], "s": "\u2028\"é\\"}}}]},
    {"role": "user", "content": [{"type": "text", "text": "part"}]},
    {"role": "assistant", "content": "end"},
]
TOOLS = [{"type": "function", "function": {
    "name": "f", "parameters": {"properties": {"items": {"type": "array"}}}}}]

# Name, source, and what differs from the usual call.
TEMPLATES = [
    ("generation spans", CHATML, {}),
    ("generation prompt", CHATML, {"prompt": True}),
    ("generation in a scope of its own",
     "{% set ns = namespace(n=0) %}{% for m in messages %}{% generation %}"
     "{% set ns.n = ns.n + 1 %}{% set x = 'é' %}{{ loop.index }}{{ x }}"
     "{% endgeneration %}[{{ x }}{{ ns.n }}]{% endfor %}", {}),
    ("generation forgets the round before",
     "{% for m in messages %}{% if loop.first %}{% set s = 'S' %}{% endif %}"
     "{% generation %}{{ s }}.{% endgeneration %}{% endfor %}", {}),
    ("generation with white space control",
     "a\n  {% generation %}\n b \n  {%- endgeneration -%}\n c", {}),
    ("generation in a macro",
     "{% macro g(m) %}pre é {% generation %}{{ m.role }}{% endgeneration %}"
     "{% endmacro %}é {% for m in messages %}{{ g(m) }};{% endfor %}", {}),
    ("generation that is only spoken of",
     "{{ '{% generation %}' }}{# {% generation %} #}{% raw %}{% generation %}"
     "{% endraw %}{{ {'a': {'b': '}}'}} }}", {}),
    ("tojson",
     "{% for m in messages %}{{ m | tojson }}\n{% endfor %}"
     "{{ messages[2].tool_calls | tojson(indent=2) }}"
     "{{ messages[0] | tojson(ensure_ascii=true, separators=(',', ':')) }}"
     "{{ messages[2].tool_calls[0].function.arguments "
     "| tojson(sort_keys=true, indent=4) }}{{ [[], {}] | tojson(indent=1) }}", {}),
    ("python spelling",
     "{{ true }} {{ none }} {{ 1.0 }} {{ 1e22 }} {{ messages[2] }} "
     "{{ 'a' ~ false ~ none }} {{ [true, none] | string }} {{ (1,) }}", {}),
    ("undefined", "[{{ x }}][{{ x is defined }}][{{ x | length }}]"
     "[{{ messages[0].nope }}][{% for i in x %}{% endfor %}]", {}),
    ("tests", "{{ none is iterable }}{{ 'a' is iterable }}{{ 1 is iterable }}"
     "{{ {} is sequence }}{{ 'a' is sequence }}{{ true is number }}"
     "{{ true is integer }}{{ [] is mapping }}{{ none is none }}", {}),
    ("trim_blocks and lstrip_blocks",
     "a\n  {% if true %}\n  b\n  {% endif %}\n  {%+ if true %}\nc\n"
     "  {% endif +%}\nd\n  {# note #}\ne\n", {}),
    ("line ends", "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r", {}),
    ("loop controls",
     "{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}"
     "{% if loop.index == 4 %}{% break %}{% endif %}{{ m.role }},{% endfor %}", {}),
    ("loop variables",
     "{% for m in messages if m.role != 'system' %}{{ loop.index }}/"
     "{{ loop.length }}{{ loop.previtem.role if not loop.first }}"
     "{{ loop.nextitem.role if not loop.last }} {% endfor %}", {}),
    ("methods",
     "{{ messages[1].content.strip() }}|{{ 'a</t>b'.split('</t>')[-1] }}|"
     "{{ ' a  b '.split() }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'k:v'.partition(':') }}"
     "{{ 'ab'.startswith(('x', 'a')) }}{{ 'a\\nb\\x0bc'.splitlines() }}"
     "{{ '\\x1c x \\u3000'.strip() }}|{{ 'ab'.removeprefix('a') }}"
     "{{ 'ab'.replace('a', 'b').title() }}{{ '{}-{}'.format(1, 'z') }}"
     "{{ 'x'.rjust(3) }}{{ 'x'.center(4, '*') }}{{ '7'.zfill(3) }}"
     "{{ 'abc'.index('c') }}{{ 'a b'.rsplit(none, 1) }}", {}),
    ("dicts",
     "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"
     "{{ tools[0].function.parameters.properties.items() | list }}"
     "{{ messages[0].get('x', 'd') }}{{ dict(a=1, b=dict([('c', 2)])) }}"
     "{{ messages[0].keys() | list }}{{ 'role' in messages[0] }}",
     {"tools": TOOLS}),
    ("filters",
     "{{ messages | map(attribute='role') | join(', ') }}"
     "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
     "{{ messages | rejectattr('content', 'string') | list | length }}"
     "{{ {'b': 1, 'a': 2} | dictsort }}{{ [3, 1] | sort | first }}{{ ' a ' | trim }}"
     "{{ 'a\\nb' | indent(2) }}{{ '5' | int + 1 }}{{ 2.5 | round }}", {}),
    ("arithmetic", "{{ 7 // 2 }}{{ -7 // 2 }}{{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} "
     "{{ 'ab' * 2 }} {{ [1] + [2] }} {{ 1 == 1.0 }} {{ messages[::-1] | length }} "
     "{{ 'hello'[1:-1] }}", {}),
    ("macros and blocks",
     "{% macro f(a, b='d') -%}\n [{{ a }}{{ b }}{{ caller() if caller }}]\n"
     "{%- endmacro %}{{ f(1) }}{% call f(2, b=3) %}body{% endcall %}"
     "{% set t %}x{{ 1 }}{% endset %}{{ t | upper }}{% filter upper %}y{% endfilter %}",
     {}),
    ("variables", "{{ bos_token }}{{ flag }}{{ documents is none }}"
     "{{ tools is none }}{{ add_generation_prompt }}{{ big }}",
     {"kwargs": {"flag": True, "big": 123456789012345678901234567890}}),
    ("kwargs win over tokens", "{{ bos_token }}", {"kwargs": {"bos_token": "B"}}),
    ("no tools is an empty list", "{{ tools }}{{ 'T' if tools is not none }}",
     {"tools": []}),
    ("reasoning under every name",
     "{{ messages[2].thinking }}{{ messages[2].reasoning_content }}"
     "{{ messages[2].reasoning }}{{ messages[2].keys() | list }}", {}),
    ("null members are dropped", "{{ messages | tojson }}",
     {"messages": [{"role": "user", "content": None, "x": {"y": None}}]}),
    ("cycler and joiner", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}"
     "{{ c.next() }}{% set j = joiner('-') %}{{ j() }}1{{ j() }}2", {}),
]


def make_templates():
    cases = []
    for name, source, more in TEMPLATES:
        case = {"name": name, "source": source, "messages": CHAT, "tools": None,
                "prompt": False, "kwargs": {}, **more}
        variables = {"bos_token": "<s>", "eos_token": "<|end|>", **case["kwargs"]}
        texts, spans = chat_template_utils.render_jinja_template(
            [[{k: v for k, v in m.items() if v is not None}
              for m in case["messages"]]],
            tools=case["tools"], chat_template=source,
            add_generation_prompt=case["prompt"],
            return_assistant_tokens_mask=True, **variables)
        case["text"] = texts[0]
        case["spans"] = [[len(texts[0][:i].encode()) for i in s] for s in spans[0]]
        cases.append(case)
    write_cases(HERE / "templates.json", cases)


if __name__ == "__main__":
    make_tokenizers()
    make_classifier_inputs()
    make_classes()
    make_templates()
