# SPDX-License-Identifier: Apache-2.0
"""Negative controls: each check of this folder finds what is wrong with a small
checkout, or with the real sources once one thing is taken away."""

import os
import pathlib
import tempfile
import unittest

import hygiene
import layering
import limits
import linkage
import names
import proto
import report
import source_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
ROOMS = {
    "core/CMakeLists.txt": """
        mpsd_room(core base DEPS absl::status)
        mpsd_room(core spec DEPS mpsd_core_base nlohmann_json::nlohmann_json)
        mpsd_torch_room(model DEPS mpsd_core_spec mpsd_torch)
        mpsd_torch_room(worker DEPS mpsd_core_model)""",
    "server/CMakeLists.txt": """
        mpsd_room(server jobs DEPS mpsd_core_spec)
        mpsd_room(server store DEPS mpsd_server_jobs SQLiteCpp)
        mpsd_room(server rpc DEPS mpsd_server_jobs mpsd_proto)""",
    "client/CMakeLists.txt": """
        target_link_libraries(mpsd_client PUBLIC mpsd_proto mpsd_core_spec)""",
}
# A file, what is wrong in it, and what layering says.
ASTRAY = [
    ("core/base/a.cc", '#include "core/spec/s.h"', "does not depend on"),
    ("server/rpc/a.h", '#include "server/store/db.h"', "does not depend on"),
    ("server/rpc/a.cc", "#include <torch/torch.h>", "does not depend on"),
    ("client/a.cc", '#include "server/store/job.h"', "does not depend on"),
    ("core/model/a.cc", "torch::mps::synchronize();", "names a backend"),
    ("server/jobs/a.cc", "if (x.is_cpu()) return;", "asks backend::Traits"),
    ("core/model/a.cc", "try {} catch (const c10::Error& e) {}", "c10::Error"),
    ("server/rpc/a.cc", "grpc::Status(code, text);", "server/rpc/convert.cc"),
    ("core/spec/a.cc", "std::ifstream file(path);", "opened by core/base"),
    ("server/jobs/a.cc", "pid = fork();", "never fork"),
    ("core/model/a.cc", "mutex_.AwaitWithTimeout(done, limit);",
     "base::Monitor"),
    ("client/a.cc", "std::this_thread::sleep_until(end);", "base::Monitor"),
    ("server/rpc/a.cc", "#include <sqlite3.h>", "knows the database"),
    ("server/CMakeLists.txt", "mpsd_room(server rpc DEPS mpsd_core_model)",
     "must not reach mpsd_torch"),
    ("core/CMakeLists.txt", "mpsd_room(core base DEPS mpsd_core_spec)",
     "depends on itself"),
]


def problems(check, tree):
    """The problems with the files {path: text}, one a line."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            file = pathlib.Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return "\n".join(check(pathlib.Path(folder)))


class ControlsTest(unittest.TestCase):
    def test_layering(self):
        self.assertEqual("", problems(layering.check, ROOMS))
        for path, text, expected in ASTRAY:
            with self.subTest(text):
                tree = {**ROOMS, path: ROOMS.get(path, "") + text + "\n"}
                self.assertIn(expected, problems(layering.check, tree))

    def test_linkage(self):
        bin_dir = pathlib.Path(os.environ["MPSD_BIN_DIR"])
        for name, rule in (("mpsd", linkage.RPC), ("mpsctl", linkage.RPC),
                           ("mpsd-worker", linkage.TORCH)):
            program = bin_dir / name
            found = linkage.judge(name, linkage.libraries(program),
                                  linkage.symbols(program), rule)
            self.assertTrue(any(" links " in f for f in found), found)
            self.assertTrue(any(" holds " in f for f in found), found)

    def test_limits(self):
        long = "void F() {\n" + "  x();\n" * 59 + "}\n"
        self.assertIn("a function of 61 lines",
                      problems(limits.check, {"core/a/b.cc": SPDX + long}))

    def test_hygiene(self):
        self.assertIn("holds a secret", problems(
            hygiene.check, {"core/a.cc": "AKIA" + "A" * 16 + "\n"}))

    def test_names(self):
        twice = "namespace mpsd {\nstruct Twice {};\n}\n"
        self.assertIn("mpsd::Twice is defined in core/a.h", problems(
            names.check, {"core/a.h": twice, "core/b.h": twice}))

    def test_proto(self):
        self.assertIn("message Job has 1 twice", problems(
            proto.check, {"proto/mpsd/v1/a.proto": "package mpsd.v1;\n"
                          "message Job {\n  string a = 1;\n  string b = 1;\n"
                          "}\n"}))

    def test_report(self):
        tree = {path: source_tree.read(ROOT, path)
                for path in source_tree.files(ROOT)
                if path.endswith((".h", ".cc", ".proto", ".md"))}
        field = "  optional double device_utilization_ratio = 17;\n"
        self.assertIn(field, tree[report.PROTO])
        tree[report.PROTO] = tree[report.PROTO].replace(field, "")
        self.assertIn("message Progress lacks device_utilization_ratio",
                      problems(report.check, tree))


if __name__ == "__main__":
    unittest.main()
