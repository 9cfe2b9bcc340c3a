# SPDX-License-Identifier: Apache-2.0
"""Every source has its test: core/lora/apply.cc, tests/core/lora/
apply_test.cc. A test that can be found needs no index; main.cc alone has
none."""

import re

import source_tree


def check(root):
    paths = set(source_tree.files(root))
    problems = []
    for path in sorted(paths):
        if not re.match(r"(core|server|client)/.*\.cc$", path):
            continue
        if path.endswith("/main.cc"):
            continue
        test = f"tests/{path[:-len('.cc')]}_test.cc"
        if test not in paths:
            problems.append(f"{path}: no {test}")
        elif not re.search(r"\b(?:TYPED_)?TEST(?:_[FP])?\s*\(",
                           source_tree.read(root, test)):
            problems.append(f"{test}: tests nothing")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
