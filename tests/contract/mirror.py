# SPDX-License-Identifier: Apache-2.0
"""Every source has its test: core/lora/apply.cc, tests/core/lora/
apply_test.cc. A test that can be found needs no index; main.cc alone has
none."""

import re

import source_tree

PLATFORMS = ("apple", "linux")


def tests_of(path):
    """Where a source's test may be. Of files that stand in for each other on
    different platforms, one that can be built here is tested for all."""
    stem = f"tests/{path[:-len('.cc')]}"
    tests = [f"{stem}_test.cc"]
    name, _, platform = stem.rpartition("_")
    if platform in PLATFORMS:
        tests += [f"{name}_{p}_test.cc" for p in PLATFORMS]
    return tests


def check(root):
    paths = set(source_tree.files(root))
    problems = []
    for path in sorted(paths):
        if not re.match(r"(core|server|client)/.*\.cc$", path):
            continue
        if path.endswith("/main.cc"):
            continue
        found = [test for test in tests_of(path) if test in paths]
        if not found:
            problems.append(f"{path}: no {tests_of(path)[0]}")
        for test in found:
            if not re.search(r"\b(?:TYPED_)?TEST(?:_[FP])?\s*\(",
                             source_tree.read(root, test)):
                problems.append(f"{test}: tests nothing")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
