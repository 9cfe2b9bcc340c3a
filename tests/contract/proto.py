# SPDX-License-Identifier: Apache-2.0
"""The API reads as its own manual: enums start at <NAME>_UNSPECIFIED = 0 and
their values carry the enum's name, every rpc and service has a comment."""

import re

import source_tree


def value_prefix(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper() + "_"


def enum_problems(path, text):
    for name, body in re.findall(r"\benum\s+(\w+)\s*\{([^}]*)\}", text):
        prefix = value_prefix(name)
        values = re.findall(r"(\w+)\s*=\s*(-?\d+)", body)
        if not values or values[0] != (prefix + "UNSPECIFIED", "0"):
            yield f"{path}: enum {name} must start at {prefix}UNSPECIFIED = 0"
        for value, _ in values:
            if not value.startswith(prefix):
                yield f"{path}: {value} must begin with {prefix}"


def comment_problems(path, text):
    previous = ""
    for line in text.splitlines():
        match = re.match(r"\s*(rpc|service)\s+(\w+)", line)
        if match and not previous.strip().startswith("//"):
            yield f"{path}: {match.group(1)} {match.group(2)} has no comment"
        previous = line


def number_problems(path, text):
    """Within a message no number and no name may come twice."""
    plain = re.sub(r"//[^\n]*", "", text)
    stack = []
    for token in re.finditer(
            r"\bmessage\s+(\w+)\s*\{|\boneof\s+\w+\s*\{|\{|\}"
            r"|(\w+)\s*=\s*(\d+)\s*[;\[]", plain):
        if token.group(1):
            stack.append((token.group(1), set()))
        elif token.group().endswith("{"):
            # A oneof shares the numbers of the message around it.
            stack.append(stack[-1] if token.group().startswith("oneof")
                         else ("", set()))
        elif token.group() == "}":
            stack.pop()
        elif stack and stack[-1][0]:
            name, used = stack[-1]
            for key in (token.group(2), token.group(3)):
                if key in used:
                    yield f"{path}: message {name} has {key} twice"
                used.add(key)


def check(root):
    problems = []
    for path in source_tree.files(root):
        if not re.match(r"proto/.*\.proto$", path):
            continue
        text = source_tree.read(root, path)
        folder = path.split("/")[1:-1]
        if f"package {'.'.join(folder)};" not in text:
            problems.append(f"{path}: expected package {'.'.join(folder)}")
        problems += enum_problems(path, text)
        problems += comment_problems(path, text)
        problems += number_problems(path, text)
    return problems


if __name__ == "__main__":
    source_tree.main(check)
