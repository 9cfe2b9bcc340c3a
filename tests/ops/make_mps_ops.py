#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes mps_ops.txt: every aten operator that has an MPS kernel of its own.

Read from native_functions.yaml as torch's wheel carries it (torchgen/packaged):
operators whose `dispatch` names MPS, and those that `structured_delegate` to
one. Everything else reaches MPS through a composite kernel or not at all.

    make_mps_ops.py TORCH_DIR          prints the table
    make_mps_ops.py TORCH_DIR --check  compares it with mps_ops.txt
"""

import pathlib
import sys

TABLE = pathlib.Path(__file__).with_name("mps_ops.txt")

# Operators whose composite kernel goes to an MPS kernel by a branch that only a
# build for macOS contains: aten/src/ATen/native/Copy.cpp.
BRANCHES = ["copy_"]


def entries(lines):
    """Yields (name, its own lines) of each operator of native_functions.yaml."""
    name, body = None, []
    for line in lines:
        if line.startswith("- func:"):
            if name:
                yield name, body
            name, body = line.split(":", 1)[1].split("(")[0].strip(), []
        elif name:
            body.append(line.split("#")[0].rstrip())
    if name:
        yield name, body


def dispatch_keys(body):
    """The keys of an operator's `dispatch` block."""
    keys, inside = set(), False
    for line in body:
        if line.startswith("  dispatch:"):
            inside = True
        elif inside and line.startswith("    ") and ":" in line:
            keys.update(key.strip() for key in line.split(":")[0].split(","))
        elif line.strip():
            inside = False
    return keys


def delegate(body):
    for line in body:
        if line.strip().startswith("structured_delegate:"):
            return line.split(":", 1)[1].strip()
    return None


def operators(lines):
    """The sorted names of operators with an MPS kernel."""
    bodies = dict(entries(lines))
    own = {name for name, body in bodies.items() if "MPS" in dispatch_keys(body)}
    delegated = {name for name, body in bodies.items() if delegate(body) in own}
    return sorted(own | delegated | set(BRANCHES))


def table(torch_dir):
    packaged = torch_dir.parent / "torchgen/packaged/ATen/native"
    text = (packaged / "native_functions.yaml").read_text()
    version = [line.split("'")[1] for line in
               (torch_dir / "version.py").read_text().splitlines()
               if line.startswith("__version__")][0].split("+")[0]
    names = operators(text.splitlines())
    return "\n".join([f"# torch {version}: operators with an MPS kernel; "
                      "made by make_mps_ops.py", *names, ""])


def main():
    made = table(pathlib.Path(sys.argv[1]))
    if "--check" not in sys.argv:
        print(made, end="")
        return 0
    if made == TABLE.read_text():
        return 0
    old, new = set(TABLE.read_text().splitlines()), set(made.splitlines())
    for line in sorted(old - new):
        print("only in mps_ops.txt:", line)
    for line in sorted(new - old):
        print("only in the pinned torch:", line)
    print("mps_ops.txt is not what the pinned torch has: run make_mps_ops.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
