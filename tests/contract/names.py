# SPDX-License-Identifier: Apache-2.0
"""A type's full name is defined once. Two types of one name in one namespace
are undefined behaviour that no linker reports: it keeps one destructor, and
frees by it what the other type holds. An unnamed namespace keeps a source's own
types apart."""

import re

import source_tree

SOURCE = re.compile(r"(core|server|client|tests)/.*\.(h|cc|mm)$")
# What replaces each other, or is a program of its own.
PLATFORM = re.compile(r"_(apple|linux)(?=\.\w+$|_test\.)")
NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|"
    r"'(?:\\.|[^'\\\n])'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*$")
TYPE = re.compile(
    r"(?:^|\s)(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+"
    r"(?:\[\[[^]]*\]\]\s*|alignas\([^)]*\)\s*)*(\w+)\s*"
    r"(?:final\s*)?(?::[^:].*)?$", re.S)


def types(text):
    """The full names of the types that other sources can see."""
    text = NO_CODE.sub(lambda m: "\n" * m.group().count("\n"), text)
    scopes, head = [], 0  # a scope: a namespace's name, or None
    for match in re.finditer(r"[{};]", text):
        before, head = text[head:match.start()].strip(), match.end()
        if match.group() == "}" and scopes:
            scopes.pop()
        if match.group() != "{":
            continue
        namespace, named = NAMESPACE.search(before), TYPE.search(before)
        visible = None not in scopes and "" not in scopes
        if visible and named and not namespace:
            line = text.count("\n", 0, match.start()) + 1
            yield "::".join(scopes + [named.group(1)]), line
        scopes.append(namespace.group(1) if namespace else None)


def program(path):
    """Test programs that hold one file each share no type by linkage."""
    return path if re.match(r"tests/(fuzz|bench|fakes|tools)/.*\.cc$",
                            path) else ""


def check(root):
    seen, problems = {}, []
    for path in source_tree.files(root):
        if not SOURCE.match(path):
            continue
        for name, line in types(source_tree.read(root, path) or ""):
            other = seen.setdefault((name, program(path)), path)
            if other != path and PLATFORM.sub("", other) != PLATFORM.sub(
                    "", path):
                problems.append(
                    f"{path}:{line}: {name} is defined in {other} too")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
