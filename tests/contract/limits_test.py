# SPDX-License-Identifier: Apache-2.0
"""Negative controls of limits.py."""

import unittest

import limits
import source_tree

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = (SPDX + "#ifndef MPSD_CORE_A_B_H_\n#define MPSD_CORE_A_B_H_\n"
          "#endif  // MPSD_CORE_A_B_H_\n")


def lines(count):
    return "  x();\n" * count


class LimitsTest(source_tree.TreeTest):
    check = staticmethod(limits.check)

    def source(self, text):
        return {"core/a/b.cc": SPDX + text}

    def test_clean(self):
        self.assert_clean({
            "core/a/b.h": HEADER,
            "deploy/x.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n",
            **self.source("namespace a {\nvoid F(int b)\n    const {\n"
                          + lines(58) + "}\n}\n" + lines(20))})

    def test_file_length(self):
        self.assert_finds("core/a/b.cc: 501 lines",
                          self.source("int x;\n" * 500))

    def test_readme_length(self):
        self.assert_finds("README.md: 121 lines", {"README.md": "a\n" * 121})
        self.assert_clean({"README.md": "a\n" * 120,
                           "core/README.md": "a\n" * 121})

    def test_function_length(self):
        for head in ("void F() {\n", "int A::F(int b) const {\n",
                     "auto F() -> int {\n", "A::A(int b)\n    : b_(b) {\n",
                     "TEST(A, B) {\n", "static void F(\n    int b) {\n"):
            self.assert_finds(
                "a function of 61 lines",
                self.source("namespace a {\n" + head + lines(59) + "}\n}\n"))

    def test_a_brace_in_a_string_ends_nothing(self):
        self.assert_finds(
            "a function of 62 lines",
            self.source('void F() {\n  s("}");  // }\n' + lines(59) + "}\n"))

    def test_a_class_is_no_function(self):
        self.assert_clean(self.source("class A {\n" + lines(70) + "};\n"))

    def test_a_table_is_no_function(self):
        self.assert_clean(self.source(
            "T F() {\n  static T t = {\n" + "1,\n" * 70
            + "  };\n  return t;\n}\n"))

    def test_columns(self):
        self.assert_finds("core/a/b.cc:2: 81 columns",
                          self.source("//" + "x" * 79 + "\n"))
        self.assert_clean(self.source("//" + "ü" * 78 + "\n"))
        self.assert_clean(self.source('f(R"(' + "x" * 90 + ')");\n'))

    def test_columns_of_markdown(self):
        prose = "- " + "x " * 59
        row, address = "| " + "x " * 70 + "|", "- https://" + "x" * 120
        for path in ("README.md", "core/README.md"):
            self.assert_clean({path: f"{prose}\n{address}\n"})
            self.assert_finds(f"{path}:2: 121 columns, at most 120",
                              {path: f"a\n{prose}y\n"})
        self.assert_clean({"core/README.md": row})
        self.assert_finds("README.md:1: 143 columns", {"README.md": row})

    def test_spdx(self):
        self.assert_finds("no SPDX line", {"core/a/b.cc": "int x;\n"})
        self.assert_finds("no SPDX line", {"deploy/x.sh": "#!/bin/sh\necho\n"})
        self.assert_finds("no SPDX line", {"core/CMakeLists.txt": "\n"})

    def test_guard(self):
        self.assert_finds("include guard must be MPSD_CORE_A_B_H_",
                          {"core/a/b.h": HEADER.replace("A_B", "B_A")})
        self.assert_finds("include guard must be",
                          {"core/a/b.h": SPDX + "#pragma once\n"})

    def test_unfinished(self):
        for mark in ("TO" + "DO", "FIX" + "ME"):
            self.assert_finds("core/a/b.cc:2: unfinished work",
                              self.source(f"// {mark}: later\n"))

    def test_vague_names(self):
        for path in ("core/util/a.txt", "core/a/string_utils.txt",
                     "server/common.txt", "tests/helpers/x.txt"):
            self.assert_finds(path + ": '", {path: ""})


if __name__ == "__main__":
    unittest.main()
