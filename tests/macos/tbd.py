# SPDX-License-Identifier: Apache-2.0
"""Libraries of symbols alone: Apple's text form of what a dylib exports,
version 4, read for arm64 macOS and written."""

import re

HEAD = """\
--- !tapi-tbd
tbd-version: 4
targets: [ arm64-macos ]
install-name: '{name}'
exports:
  - targets: [ arm64-macos ]
    symbols: [ {symbols} ]
...
"""
TARGET = re.compile(r"\barm64-macos\b")


def words(text):
    return {word.strip().strip("'\"") for word in text.split(",")} - {""}


def read(path):
    """(install name, exported symbols) of the file: of a file with many
    documents, such as zig's libSystem, the first one's name and all symbols
    of all of them."""
    text = path.read_text()
    name = re.search(r"^install-name:\s+'?([^'\s]+)", text, re.M).group(1)
    exported = set()
    sections = re.split(r"^([a-z-]+):", text, flags=re.M)[1:]
    for key, body in zip(sections[::2], sections[1::2]):
        if key not in ("exports", "reexports"):
            continue
        for entry in re.split(r"^  - ", body, flags=re.M)[1:]:
            if not TARGET.search(entry.split("]")[0]):
                continue
            lists = re.findall(
                r"\b(?:weak-|thread-local-)?symbols:\s*\[([^\]]*)\]", entry)
            for found in lists:
                exported |= words(found)
            for found in re.findall(r"objc-classes:\s*\[([^\]]*)\]", entry):
                for name_of_class in words(found):
                    exported |= {f"_OBJC_CLASS_$_{name_of_class}",
                                 f"_OBJC_METACLASS_$_{name_of_class}"}
    return name, exported


def text(name, symbols):
    listed = ",\n               ".join(f"'{s}'" for s in sorted(symbols))
    return HEAD.format(name=name, symbols=listed)


def write(path, name, symbols):
    """Leaves a file that says the same already alone."""
    wanted = text(name, symbols)
    if not path.exists() or path.read_text() != wanted:
        path.write_text(wanted)
