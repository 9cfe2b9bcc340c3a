# SPDX-License-Identifier: Apache-2.0
"""Negative controls of names.py."""

import unittest

import names
import source_tree

HEADER = """\
#ifndef A_H_
#define A_H_
namespace mpsd::study {
// struct Commented {
struct Times {
  struct Part { int x; };
  int y = 0;
};
struct Declared;
enum class Kind : int { kA };
void Use(struct Times t) { struct Local {}; }
template <typename T>
class List final : public Times {
};
template <>
struct Hash<Times> {};
const char* text = "struct Quoted {";
}  // namespace mpsd::study
#endif
"""


def within(namespace, code):
    return f"namespace {namespace} {{\n{code}\n}}\n"


class NamesTest(source_tree.TreeTest):
    check = staticmethod(names.check)

    def test_what_is_a_type(self):
        self.assertEqual([name for name, _ in names.types(HEADER)],
                         ["mpsd::study::Times", "mpsd::study::Kind",
                          "mpsd::study::List"])

    def test_clean(self):
        self.assert_clean({
            "core/a.h": HEADER,
            "core/b.h": within("mpsd::train", "struct Times {};"),
            "core/b.cc": within(
                "mpsd::study", within("", "struct Times {};")),
            "core/c.cc": within("mpsd::study", "struct Times::Part {};"),
            "core/d.h": within("mpsd::study", "struct Times;")})

    def test_twice_in_headers(self):
        self.assert_finds(
            "core/b.h:2: mpsd::study::Times is defined in core/a.h too",
            {"core/a.h": HEADER,
             "core/b.h": within("mpsd::study", "struct Times {};")})

    def test_twice_in_sources(self):
        for kind in ("struct", "class", "enum", "enum class", "union"):
            tree = {p: within("mpsd", f"{kind} Twice {{}};")
                    for p in ("core/a.cc", "server/b.cc")}
            self.assert_finds("mpsd::Twice is defined in core/a.cc", tree)

    def test_nested_namespaces_are_one_name(self):
        self.assert_finds("mpsd::study::Times is defined", {
            "core/a.h": HEADER,
            "tests/core/a_test.cc": within(
                "mpsd", within("study", "class Times {};"))})

    def test_platforms_stand_in_for_each_other(self):
        source = within("mpsd", "struct Impl {};")
        self.assert_clean({"core/a/b_apple.cc": source,
                           "core/a/b_linux.cc": source})
        self.assert_finds("mpsd::Impl", {"core/a/b_apple.cc": source,
                                         "core/a/c_linux.cc": source})


if __name__ == "__main__":
    unittest.main()
