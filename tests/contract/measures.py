# SPDX-License-Identifier: Apache-2.0
"""Measures of the house, as a table: what a script can count of how large it
is, how its rooms hang together, how much it explains and checks.

    measures.py ROOT [REVISION…]

A column for each revision of git, then one for the checkout at ROOT.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import layering
import limits
import mirror
import source_tree

AREAS = ("core", "server", "client")
# Where jobs and reports are handled: what one fact with one owner makes smaller.
REPORTING = ("core/train", "core/wire", "core/report", "server/jobs",
             "server/supervisor", "server/store")
# A comparison with one backend, wherever the device itself is not at home.
BACKEND = re.compile(
    r"\bis_(?:cpu|cuda|mps)\(\)|\bmps\(\)|"
    r"(?:[=!]=|\bcase)\s*(?:\w+::)*(?:Kind|Kernels)::k(?:Cpu|Cuda|Mps)\b")
BACKEND_ROOMS = r"core/(device|backend)/"
CHECK = re.compile(r"\bbase::Check\w*\(|\b(?:static_)?assert\(")


class Sources:
    """The committed text files of a checkout, by path."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}
        for path in source_tree.files(root):
            text = source_tree.read(root, path)
            if text is not None:
                self.texts[path] = text

    def matching(self, pattern):
        return {p: t for p, t in self.texts.items() if re.match(pattern, p)}

    def lines(self, pattern):
        return sum(t.count("\n") for t in self.matching(pattern).values())


def percentiles(values):
    """'p50 / p90 / max' of whole numbers."""
    if not values:
        return "-"
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    return f"{at(0.5)} / {at(0.9)} / {values[-1]}"


def comment_share(texts):
    """Lines that are a comment and no more, without the SPDX line, among those
    that are not blank."""
    comments = lines = 0
    for text in texts:
        for line in text.splitlines():
            line = line.strip()
            lines += bool(line)
            comments += line.startswith("//") and "SPDX" not in line
    return f"{100 * comments / lines:.1f} %" if lines else "-"


def room_arrows(root):
    """{room: rooms that its CMake target names}, the three programs left
    out."""
    graph = layering.parse_graph(root)
    rooms = {t for t in graph if re.match(r"mpsd_(core|server)_|mpsd_client$", t)}
    return {room: graph[room] & rooms for room in rooms}


def floors(arrows):
    """The length of the longest way down through the rooms."""
    heights = {}

    def height(room):
        if room not in heights:
            heights[room] = 1 + max(map(height, arrows[room]), default=0)
        return heights[room]

    return max(map(height, arrows), default=0)


def count(pattern, texts):
    return sum(len(pattern.findall(layering.uncommented(t))) for t in texts)


def measure(root):
    """{measure: value}, in the order of the table."""
    s = Sources(root)
    areas = "(" + "|".join(AREAS) + ")/"
    code = s.matching(areas + r".*\.(h|cc|mm)$")
    headers = {p: t for p, t in code.items() if p.endswith(".h")}
    bodies = {p: t for p, t in code.items() if not p.endswith(".h")}
    tests = s.matching(r"tests/.*\.(h|cc)$")
    found = {}
    for area in AREAS:
        found[f"lines of {area}/ (C++)"] = s.lines(area + r"/.*\.(h|cc|mm)$")
    found["lines of Rust"] = s.lines(r".*\.rs$")
    found["lines of proto/"] = s.lines(r"proto/.*\.proto$")
    found["lines of tests/ (C++)"] = sum(t.count("\n") for t in tests.values())
    found["lines of tests/ and deploy/ (Python, shell)"] = s.lines(
        r"(tests|deploy)/.*\.(py|sh)$")
    found["lines of " + " + ".join(REPORTING)] = s.lines(
        "(" + "|".join(REPORTING) + r")/.*\.(h|cc)$")
    arrows = room_arrows(s.root)
    found["rooms"] = len(arrows)
    found["arrows between rooms"] = sum(map(len, arrows.values()))
    found["floors"] = floors(arrows)
    found["branches on a backend outside core/device"] = count(
        BACKEND, [t for p, t in code.items()
                  if not re.match(BACKEND_ROOMS, p)])
    found["checks and static assertions"] = count(CHECK, code.values())
    found["header lines, p50 / p90 / max"] = percentiles(
        [t.count("\n") for t in headers.values()])
    found["source lines, p50 / p90 / max"] = percentiles(
        [t.count("\n") for t in bodies.values()])
    lengths = [n for t in code.values() for _, n in limits.functions(t)]
    found["lines of functions of 3 statements and more, p50 / p90 / max"] = (
        percentiles(lengths))
    found["comment share of headers"] = comment_share(headers.values())
    found["comment share of sources"] = comment_share(bodies.values())
    found["comment share of core/train's headers"] = comment_share(
        s.matching(r"core/train/.*\.h$").values())
    found["comments that begin with 'Of'"] = sum(
        len(re.findall(r"^\s*// Of ", t, re.M)) for t in code.values())
    found["includes of a source, p50 / p90 / max"] = percentiles(
        [len(re.findall(r"^#include", t, re.M)) for t in bodies.values()])
    found["#defines but for guards"] = sum(
        len(re.findall(rf"^#define (?!{limits.guard_of(p)}$)", t, re.M))
        for p, t in code.items())
    found["sources without a mirrored test"] = len(mirror.check(s.root))
    readme = s.texts.get("README.md", "")
    found["README.md: lines"] = readme.count("\n")
    found["README.md: words"] = len(readme.split())
    found["README.md: longest line"] = max(map(len, readme.splitlines()),
                                           default=0)
    return found


def measure_revision(root, revision):
    """The measures of a commit, unpacked aside."""
    archive = subprocess.run(["git", "-C", str(root), "archive", revision],
                             capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        return measure(folder)


def main():
    root, revisions = sys.argv[1], sys.argv[2:]
    columns = {r: measure_revision(root, r) for r in revisions}
    columns["checkout"] = measure(root)
    print("| measure | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns["checkout"]:
        print(f"| {name} | "
              + " | ".join(str(c[name]) for c in columns.values()) + " |")


if __name__ == "__main__":
    main()
