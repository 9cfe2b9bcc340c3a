# SPDX-License-Identifier: Apache-2.0
"""Negative controls of checks.py."""

import unittest

import checks
import source_tree

CHECKED = 'void F(int i) {\n  base::CheckLess(i, 2, "the index");\n}\n'


class ChecksTest(source_tree.TreeTest):
    check = staticmethod(checks.check)

    def header(self, comment, code="void F(int i);\n"):
        return {"core/a/b.h": f"// {comment}\n{code}"}

    def test_each_kind_of_demand(self):
        for comment in ("`i` must be below 2.", "F may be called at most once.",
                        "At most once. `i` is a number.", "Exactly once.",
                        "What was read, waited for. Once.", "Listens; once.",
                        "The first number. After Start.", "After the last Add.",
                        "Takes over, before the first Tick: rows and files.",
                        "A sentence\n// that must be read on."):
            self.assert_finds("has no base::Check", self.header(comment))

    def test_a_comment_behind_a_member(self):
        self.assert_finds('core/a/b.h:1: "after Load" has no base::Check',
                          {"core/a/b.h": "int* a_ = nullptr;  // after Load\n"})

    def test_the_check_stands_in_the_source_or_in_the_header(self):
        demand = self.header("`i` must be below 2.")
        self.assert_clean({**demand, "core/a/b.cc": CHECKED})
        self.assert_clean(self.header("`i` must be below 2.",
                                      "inline " + CHECKED))
        self.assert_finds("has no base::Check",
                          {**demand, "core/a/c.cc": CHECKED})

    def test_a_check_in_a_comment_is_none(self):
        self.assert_finds("has no base::Check",
                          {**self.header("`i` must be below 2."),
                           "core/a/b.cc": "// base::Check(i < 2);\n"})

    def test_every_demand_has_a_check(self):
        self.assert_finds('core/a/b.h:1: "`i` must be below 2"',
                          {**self.header("`i` must be below 2. At most once."),
                           "core/a/b.cc": CHECKED})

    def test_an_interface_is_checked_where_it_is_implemented(self):
        demand = {"server/jobs/blob_store.h": "// At most once.\nvoid F();\n"}
        self.assert_finds("server/jobs/blob_store.h:1:", demand)
        self.assert_clean({**demand, "server/store/blob_batch.cc": CHECKED})

    def test_what_demands_nothing(self):
        for comment in ("`a` must outlive it.", "It must live as long.",
                        "Any thread, must not block.", "Answers at once.",
                        "Tells what must not change, and whether it must stay.",
                        "A name that must be there, else InvalidArgument.",
                        "After OK the bytes survive.", "The norm, before that."):
            self.assert_clean(self.header(comment))

    def test_idle_words_do_not_hide_a_demand_beside_them(self):
        self.assert_finds("has no base::Check", self.header(
            "`a` must outlive it and its numbers must be positive."))

    def test_code_is_no_comment(self):
        self.assert_clean({"core/a/b.h": 'auto a = "http://b must be";\n',
                           "tests/core/a/b.h": "// It must be small.\n",
                           "core/a/b.cc": "// It must be small.\n"})

    def test_an_exemption_is_of_one_sentence(self):
        self.assert_clean({"server/log.h": "// The state folder must exist.\n"})
        self.assert_finds("has no base::Check", {
            "server/log.h":
                "// The state folder must exist. It must be empty.\n"})

    def test_an_exemption_that_serves_nothing_goes(self):
        self.assert_finds('server/log.h: checks.py exempts "The state folder',
                          {"server/log.h": "// Opens the log.\n"})

    def test_every_exemption_has_a_reason(self):
        for reason in checks.EXEMPT.values():
            self.assertGreater(len(reason.split()), 3, reason)


if __name__ == "__main__":
    unittest.main()
