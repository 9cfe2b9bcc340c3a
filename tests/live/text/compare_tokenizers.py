# SPDX-License-Identifier: Apache-2.0
"""core/text's tokenizers against Python's on real vocabularies.

usage: compare_tokenizers.py TEXT_PROBE FETCHED_FOLDER DEMO_MODEL

For each folder and each text: ids, offsets and both decodings equal those of
AutoTokenizer's backend, ids equal AutoTokenizer's, special ids equal; and of
texts and pairs ids and token types equal AutoTokenizer's with truncation=True.
Then the small folders of tokenizer_classes.py. Exits 1 on a mismatch.
"""

import copy
import itertools
import pathlib
import random
import sys
import tempfile

import transformers

import corpus
from probe import Probe

sys.path.append(str(pathlib.Path(__file__).parents[2] / "core/text/testdata"))
import tokenizer_classes  # noqa: E402


def byte_offsets(text, offsets):
    starts = [0, *itertools.accumulate(len(c.encode()) for c in text)]
    return [[starts[begin], starts[end]] for begin, end in offsets]


def expect(failures, what, ours, theirs):
    if ours != theirs:
        failures.append(what)
        if len(failures) <= 10:
            print(f"  {what}\n    ours   {str(ours)[:300]}"
                  f"\n    python {str(theirs)[:300]}")


def compare_facts(probe, auto, failures):
    facts = probe.ask("facts")
    expect(failures, "vocabulary size", facts["size"], len(auto))
    for name in ("bos", "eos", "pad"):
        expect(failures, name, facts[name], getattr(auto, f"{name}_token_id"))
    expect(failures, "has a template", facts["chat_template"],
           auto.chat_template is not None)


def compare_text(probe, raw, auto, text, failures):
    for special in (False, True):
        ours = probe.ask("encode", text=text, special=special)
        theirs = raw.encode(text, add_special_tokens=special)
        expect(failures, f"ids of {text!r}", ours.get("ids"), theirs.ids)
        expect(failures, f"offsets of {text!r}", ours.get("offsets"),
               byte_offsets(text, theirs.offsets))
        expect(failures, f"AutoTokenizer ids of {text!r}", ours.get("ids"),
               auto(text, add_special_tokens=special)["input_ids"])
    for skip in (False, True):
        decoded = probe.ask("decode", ids=theirs.ids, skip=skip)
        expect(failures, f"decoded {text!r}", decoded.get("text"),
               raw.decode(theirs.ids, skip_special_tokens=skip))


def compare_pairs(probe, auto, all_texts, failures):
    """What a classifier takes: each text alone or with another, cut to a
    length that is often too short."""
    rng, count = random.Random(4), 0
    least = auto.num_special_tokens_to_add(pair=True) + 1
    lengths = sorted({least, least + 1, 8, 16, 32, 128, 512})
    # Grouped by length: that is what both keep between calls.
    for i, length in enumerate(lengths):
        for text in all_texts[i::len(lengths)]:
            pair = rng.choice([None, *rng.choices(all_texts, k=2)])
            count += compare_pair(probe, auto, text, pair, length, failures)
    expect(failures, "some were cut and some were not",
           len(all_texts) // 5 < count < len(all_texts), True)


def compare_pair(probe, auto, text, pair, length, failures):
    ours = probe.ask("classifier", text=text, pair=pair, length=length)
    texts = ([text],) if pair is None else ([text], [pair])
    theirs = auto(*texts, truncation=True, max_length=length,
                  return_token_type_ids=True)
    what = f"{text!r} and {pair!r} within {length}"
    expect(failures, f"ids of {what}", ours.get("ids"), theirs["input_ids"][0])
    expect(failures, f"types of {what}", ours.get("types"),
           theirs["token_type_ids"][0])
    return ours.get("truncated", False)


def compare(probe, folder):
    loaded = probe.ask("load", dir=str(folder))
    if "error" in loaded:
        return 0, [loaded["error"]]
    auto, failures = transformers.AutoTokenizer.from_pretrained(str(folder)), []
    raw = copy.deepcopy(auto.backend_tokenizer)
    raw.no_truncation()
    raw.no_padding()
    compare_facts(probe, auto, failures)
    special = [t.content for t in raw.get_added_tokens_decoder().values()][:40]
    texts = corpus.texts(special)
    for text in texts:
        compare_text(probe, raw, auto, text, failures)
    compare_pairs(probe, auto, texts, failures)
    return len(texts), failures


def compare_classes(probe):
    """The number of folders, and the mismatches."""
    failures, count = [], 0
    for row in tokenizer_classes.rows():
        with tempfile.TemporaryDirectory() as folder:
            tokenizer_classes.write(row, folder)
            auto = transformers.AutoTokenizer.from_pretrained(folder)
            loaded = probe.ask("load", dir=folder)
        texts, count = tokenizer_classes.TEXTS, count + 1
        first, second = tokenizer_classes.PAIR
        pair = probe.ask("classifier", text=first, pair=second, length=512)
        cut = probe.ask("classifier", text=texts[1], pair=None, length=6)
        ours = loaded if "error" in loaded else {
            "ids": [probe.ask("encode", text=text, special=True)["ids"]
                    for text in texts],
            "plain": probe.ask("encode", text=texts[0], special=False)["ids"],
            "pair": None if "error" in pair else [pair["ids"], pair["types"]],
            "cut": cut["ids"],
            "size": probe.ask("facts")["size"]}
        expect(failures, row, ours, tokenizer_classes.answers(auto))
    return count, failures


def main():
    program, fetched, demo = sys.argv[1:]
    folders = sorted((pathlib.Path(fetched) / "tokenizers").iterdir())
    if pathlib.Path(demo).is_dir():
        folders.append(pathlib.Path(demo))
    transformers.logging.set_verbosity_error()
    probe, bad = Probe(program), 0
    for folder in folders:
        count, failures = compare(probe, folder)
        print(f"{folder.name}: {count} texts, {len(failures)} mismatches",
              flush=True)
        bad += len(failures) + (count < 4000)
    count, failures = compare_classes(probe)
    print(f"{count} classes and settings, {len(failures)} mismatches")
    bad += len(failures) + (count < 50)
    probe.close()
    sys.exit(1 if bad or len(folders) < 4 else 0)


if __name__ == "__main__":
    main()
