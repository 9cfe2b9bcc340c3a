# SPDX-License-Identifier: Apache-2.0
"""core/text's separated values against Python's csv module, on random text.

usage: compare_rows.py TEXT_PROBE

Rows, the lines where they begin, and which texts have quotes that are wrong:
those that csv's strict mode refuses. Seeded. Exits 1 on a mismatch.
"""

import csv
import io
import random
import re
import sys

from probe import Probe

CASES = 20_000
PIECES = ["a", "b c", "", "\"", "\"", "\"\"", ",", ",", "\t", "\t", "\n", "\n",
          "\r\n", "\r", "é", "'", " ", "\\"]


def python_rows(text, delimiter, quoting):
    """The rows and where they begin, or None where csv refuses."""
    lines = io.StringIO(text, newline="").readlines()
    lines = [part for line in lines
             for part in re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", line)]
    reader = csv.reader(lines, delimiter=delimiter, strict=True,
                        quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE)
    rows, begins, before = [], [], 0
    try:
        for row in reader:
            if row:
                rows.append(row)
                begins.append(before + 1)
            before = reader.line_num
    except csv.Error:
        return None
    return rows, begins


def main():
    probe, rng, bad, refused = Probe(sys.argv[1]), random.Random(5), 0, 0
    for _ in range(CASES):
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 30)))
        delimiter, quoting = rng.choice(",\t"), rng.random() < 0.7
        ours = probe.ask("rows", text=text, delimiter=delimiter, quoting=quoting)
        theirs = python_rows(text, delimiter, quoting)
        refused += theirs is None
        same = (not ours["sound"] if theirs is None else
                ours["sound"] and (ours["rows"], ours["lines"]) == theirs)
        if not same:
            bad += 1
            if bad <= 10:
                print(f"{text!r} by {delimiter!r}, quoting {quoting}\n"
                      f"  ours   {ours}\n  python {theirs}")
    probe.close()
    print(f"{CASES} texts, {refused} of them refused, {bad} mismatches")
    sys.exit(1 if bad or not CASES // 10 < refused < CASES // 2 else 0)


if __name__ == "__main__":
    main()
