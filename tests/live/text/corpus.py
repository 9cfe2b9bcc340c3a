# SPDX-License-Identifier: Apache-2.0
"""Texts that tokenizers disagree about when they disagree: seeded, so that a
run can be repeated, and from files that every Python has."""

import pathlib
import random
import sysconfig
import unicodedata

EDGES = [
    "", " ", "  ", "\n", "\r\n", "\t", " \n ", "\n\n\n", "a", " a", "a ",
    "\u00a0", "\u200b", "\u2028", "\ufeff", "\u0000", "\u0001\u001f\u007f",
    "e\u0301", "\u00e9", "\u1e9b\u0323", "\ufb01", "\u212b", "A\u030a",
    "I'm you're we'll they'd it's I'M YOU'RE", "don't can't won't",
    "1234567890", "3.14159", "1,000,000", "0x1f", "1e-5", "12 345 6789",
    "www.example.org/a?b=c&d=%20#e", "a@b.example", "C++ && || -> <<=",
    "def f(x):\n    return x ** 2  # power\n", "\tif (a) {\n\t\tb();\n\t}\n",
    "{\"a\": [1, null, \"\\u00e9\"]}", "<b>&amp;</b>", "$x^2 + y_1$",
    "日本語のテキスト", "中文字符測試", "한국어 문장", "ไทย", "العربية", "עברית",
    "हिन्दी", "Ελληνικά Σίσυφος", "Русский", "ﷺ", "Tiếng Việt", "İstanbul",
    "straße STRASSE", "👍", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "🏴‍☠️", "🤷🏻‍♀️",
    "a👍b", "\U0001f600" * 20, "\U00020000\U0002ffff", "\U0010ffff", "\ue000",
    "a" * 1000, "ab " * 500, " " * 300, "\n" * 100, "-" * 200, "=" * 77,
    "...", "…", "“quoted” ‘text’ – dash — em", "¡Hola! ¿Qué?", "½ ² ₃ ①",
    "<|im_start|>user\nhi<|im_end|>", "<s>[INST] hi [/INST]</s>", "[CLS] x [SEP]",
    "<|begin_of_text|><|eot_id|>", "<|endoftext|>", "<think>\n\n</think>",
    "<bos><start_of_turn>user\nx<end_of_turn>", "<|im_start", "im_end|>", "<|",
    "<|eot_id|> <|eot_id|>\n<|eot_id|>", "[MASK]", "[UNK]", "<unk>", "<pad>",
    "x<|im_end|>", " <|im_end|> ", "▁", "▁▁a", "Ġ", "Ċ", "##ing", "<0x0A>",
]

WORDS = ("the of and to in is that for it was as with be by on not he his but at"
         " are this have from or had an they which one you were all her she there"
         " would their we him been has when who will no more if out so up said"
         " what its about than into them can only other time new some could these"
         " two may first then do any like my now over such our man me even most"
         " naïve façade Zürich coöperate résumé").split()
SPACES = [" "] * 30 + ["  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", ""]
MARKS = [""] * 30 + [",", ".", "!", "?", ";", ":", "'s", "...", ")", "\"", "-"]


def sentence(rng):
    out = []
    for _ in range(rng.randint(1, 40)):
        word = rng.choice(WORDS)
        word = rng.choice([word, word, word.capitalize(), word.upper()])
        if rng.random() < 0.1:
            word = str(rng.randint(0, 10 ** rng.randint(1, 9)))
        out.append(word + rng.choice(MARKS) + rng.choice(SPACES))
    return "".join(out)


def assigned():
    return [chr(c) for c in range(0x110000)
            if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def random_characters(rng, alphabet):
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60)))


def random_utf8(rng):
    """What is left of random bytes when they are read as UTF-8."""
    return rng.randbytes(rng.randint(1, 120)).decode("utf-8", "ignore")


def source_pieces(rng, count):
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.glob("*.py"))[:120]
    texts = [f.read_text(encoding="utf-8", errors="replace") for f in files]
    for _ in range(count):
        text = rng.choice(texts)
        begin = rng.randrange(max(1, len(text) - 10))
        yield text[begin:begin + rng.randint(5, 1500)]


def texts(special_tokens=(), seed=7, scale=1):
    rng = random.Random(seed)
    every = assigned()
    planes = [[c for c in every if begin <= ord(c) < end] for begin, end in
              [(0, 0x80), (0, 0x250), (0x250, 0x2000), (0x2000, 0x3000),
               (0x3000, 0xa000), (0xa000, 0x10000), (0x10000, 0x110000)]]
    result = list(EDGES)
    result += [c for c in every[::97]]
    result += [sentence(rng) for _ in range(1200 * scale)]
    result += [random_characters(rng, plane)
               for plane in planes for _ in range(150 * scale)]
    result += [random_utf8(rng) for _ in range(500 * scale)]
    result += source_pieces(rng, 500 * scale)
    special = list(special_tokens)
    for _ in range(300 * scale if special else 0):
        parts = [rng.choice([rng.choice(special), sentence(rng)[:40], " ", "\n"])
                 for _ in range(rng.randint(1, 8))]
        result.append("".join(parts))
    return result
