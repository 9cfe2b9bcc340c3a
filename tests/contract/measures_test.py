# SPDX-License-Identifier: Apache-2.0
"""Controls of measures.py: a small tree whose numbers are known."""

import pathlib
import tempfile
import unittest

import measures

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
TREE = {
    "README.md": "one two\nthree\n",
    "core/CMakeLists.txt": """
        mpsd_room(core base DEPS absl::status)
        mpsd_room(core spec DEPS mpsd_core_base)
        mpsd_torch_room(device DEPS mpsd_core_base)
        mpsd_torch_room(train DEPS mpsd_core_spec mpsd_core_device)
    """,
    "core/base/a.h": SPDX + "// What it is.\n\nint F();\n// Of F.\nint G();\n",
    "core/device/a.h": "bool mps() { return kind() == Kind::kMps; }\n",
    "core/train/a.cc": SPDX + """#include "core/base/a.h"
#define ODD 1
// Not t.is_cpu(), which is a comment.
void F() {
  base::CheckLess(1, 2, "one and two");
  if (t.is_cpu()) return;
  if (device.kind() != device::Kind::kMps) return;
  static_assert(true);
  Kernels k = Kernels::kCpu;
}
""",
    "core/train/b.cc": SPDX,
    "tests/core/train/a_test.cc": "TEST(A, B) {}\n",
    "server/a.h": "int a;\n",
}


class MeasuresTest(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in TREE.items():
                file = pathlib.Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            self.found = measures.measure(folder)

    def test_lines(self):
        self.assertEqual(19, self.found["lines of core/ (C++)"])
        self.assertEqual(1, self.found["lines of server/ (C++)"])
        self.assertEqual(12, next(v for k, v in self.found.items()
                                  if k.startswith("lines of core/train +")))

    def test_rooms(self):
        self.assertEqual((4, 4, 3), (self.found["rooms"],
                                     self.found["arrows between rooms"],
                                     self.found["floors"]))

    def test_code(self):
        self.assertEqual(
            2, self.found["branches on a backend outside core/device"])
        self.assertEqual(2, self.found["checks and static assertions"])
        self.assertEqual(1, self.found["comments that begin with 'Of'"])
        self.assertEqual(1, self.found["#defines but for guards"])
        self.assertEqual(1, self.found["sources without a mirrored test"])

    def test_shares(self):
        self.assertEqual("28.6 %", self.found["comment share of headers"])

    def test_readme(self):
        self.assertEqual((2, 3, 7), tuple(
            self.found[f"README.md: {what}"]
            for what in ("lines", "words", "longest line")))


if __name__ == "__main__":
    unittest.main()
