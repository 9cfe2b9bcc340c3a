# SPDX-License-Identifier: Apache-2.0
"""Negative controls of mirror.py."""

import unittest

import mirror
import source_tree

TREE = {
    "core/lora/apply.cc": "",
    "tests/core/lora/apply_test.cc": "TEST(Apply, Works) {}\n",
    "server/main.cc": "",
    "tests/fakes/fake_worker.cc": "",
}


class MirrorTest(source_tree.TreeTest):
    check = staticmethod(mirror.check)

    def test_clean(self):
        self.assert_clean(TREE)

    def test_missing(self):
        for path in ("client/submit.cc", "server/daemon.cc", "core/a/b.cc"):
            self.assert_finds(f"{path}: no tests/{path[:-3]}_test.cc",
                              {**TREE, path: ""})

    def test_elsewhere_does_not_count(self):
        self.assert_finds("core/base/apply.cc: no",
                          {**TREE, "core/base/apply.cc": ""})

    def test_platforms_share_a_test(self):
        tree = {"core/a/b_linux.cc": "", "core/a/b_apple.cc": ""}
        self.assert_finds("core/a/b_apple.cc: no", tree)
        tree["tests/core/a/b_linux_test.cc"] = "TEST(A, B) {}\n"
        self.assert_clean(tree)

    def test_empty(self):
        self.assert_finds("tests nothing",
                          {**TREE, "tests/core/lora/apply_test.cc": "int x;"})


if __name__ == "__main__":
    unittest.main()
