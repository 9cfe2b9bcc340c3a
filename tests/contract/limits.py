# SPDX-License-Identifier: Apache-2.0
"""Sizes and marks that every source keeps: lines of a function, columns, the
SPDX line, #pragma once in headers, finished work, and names that say
something. Prose in Markdown stays within its columns, and README.md short
enough to be read."""

import re

import source_tree

FUNCTION_LINES = 60
COLUMNS = 80
PYTHON_COLUMNS = 88
MARKDOWN_COLUMNS = 120
README_LINES = 120

CODE = r".*(\.(h|cc|mm|proto|py|sh|cmake|sql)|CMakeLists\.txt)$"
VAGUE = {"util", "utils", "common", "helper", "helpers", "misc"}
UNFINISHED = re.compile(r"\b(" + "|".join(
    ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")


def blanked(text):
    """C++ with comments, strings and directives replaced by spaces; every
    line break stays where it was."""
    pattern = (r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|'
               r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*")
    # Digit separators look like quotes.
    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "_", text)
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text,
                  flags=re.S | re.M)


def functions(text):
    """(first line, lines) of each outermost function body of C++ text. What
    is before a body and ends in a parameter list is a function."""
    plain = blanked(text)
    depth, head, begin, start, found = 0, 0, 0, 0, []
    body_depth = None
    for i, c in enumerate(plain):
        if c == "{":
            if body_depth is None and is_function(plain[head:i]):
                body_depth, begin = depth, i
                start = plain.count("\n", 0, i)
            depth += 1
            head = i + 1
        elif c == "}":
            depth -= 1
            head = i + 1
            if depth == body_depth:
                body = plain[begin:i]
                # A function of one or two statements is a table.
                if body.count(";") > 2:
                    found.append((start + 1, body.count("\n") + 1))
                body_depth = None
        elif c == ";":
            head = i + 1
    return found


def is_function(head):
    head = head.strip()
    if re.match(r"(inline\s+)?namespace\b|extern\b|enum\b", head):
        return False
    return re.search(
        r"\)\s*(const|noexcept|override|final|mutable|->[^;]*|\s)*$|\)\s*:\s",
        head) is not None


def raw_string_lines(text):
    """Numbers of the lines that a raw string covers: they are data."""
    lines = set()
    for match in re.finditer(r'R"(\w*)\(.*?\)\1"', text, flags=re.S):
        first = text.count("\n", 0, match.start()) + 1
        lines.update(range(first, first + match.group().count("\n") + 1))
    return lines


def line_problems(path, text):
    lines = text.splitlines()
    marks = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    if not marks or "SPDX-License-Identifier: Apache-2.0" not in marks[0]:
        yield f"{path}: no SPDX line at its head"
    data = raw_string_lines(text) if re.search(r"\.(h|cc|mm)$", path) else ()
    columns = PYTHON_COLUMNS if path.endswith(".py") else COLUMNS
    for number, line in enumerate(lines, 1):
        if (len(line) > columns and number not in data
                and "/testdata/" not in path):
            yield f"{path}:{number}: {len(line)} columns, at most {columns}"
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished work"


def markdown_problems(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        # Neither a table's row nor an address can be broken; README.md, which
        # is read as a file too, has short rows.
        is_whole = (line.startswith("|") and path != "README.md"
                    or len(line.lstrip(" -*>").split()) == 1)
        if len(line) > MARKDOWN_COLUMNS and not is_whole:
            yield (f"{path}:{number}: {len(line)} columns, at most "
                   f"{MARKDOWN_COLUMNS}")


def source_problems(path, text):
    if path.endswith(".h"):
        if text.count("\n#pragma once\n") != 1:
            yield f"{path}: expected one #pragma once"
    if path.startswith("tests/"):
        return
    for first, count in functions(text):
        if count > FUNCTION_LINES:
            yield (f"{path}:{first}: a function of {count} lines, at most "
                   f"{FUNCTION_LINES}")


def name_problems(path):
    for part in path.split("/"):
        for word in re.split(r"[^a-z0-9]+", part.lower()):
            if word in VAGUE:
                yield f"{path}: '{word}' says nothing about what it is"


def check(root):
    problems = []
    for path in source_tree.files(root):
        problems += name_problems(path)
        if path == "README.md":
            lines = source_tree.read(root, path).count("\n")
            if lines > README_LINES:
                problems.append(f"{path}: {lines} lines, at most "
                                f"{README_LINES}")
        if path.endswith(".md"):
            problems += markdown_problems(path, source_tree.read(root, path))
        text = source_tree.read(root, path) if re.match(CODE, path) else None
        if text is None:
            continue
        problems += line_problems(path, text)
        if re.search(r"\.(h|cc|mm)$", path):
            problems += source_problems(path, text)
    return problems


if __name__ == "__main__":
    source_tree.main(check)
