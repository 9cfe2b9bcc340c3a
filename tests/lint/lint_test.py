# SPDX-License-Identifier: Apache-2.0
"""Negative controls of this folder's checks and of tests/lint.sh: each finds
what is wrong with a small checkout.

    lint_test.py ROOT
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/lint"

GUARDED = """struct __attribute__((capability("mutex"))) Mutex {
  void Lock() __attribute__((acquire_capability()));
  void Unlock() __attribute__((release_capability()));
};

class Counter {
 public:
  void Add() {
    %s;
    ++value_;
    mutex_.Unlock();
  }

 private:
  Mutex mutex_;
  int value_ __attribute__((guarded_by(mutex_))) = 0;
};
"""


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name in (".clang-format", ".clang-tidy"):
            shutil.copy(ROOT / name, self.root)
        (self.root / "build").mkdir()
        for name in ("venv", "rust-path"):
            if (ROOT / "build" / name).exists():
                (self.root / "build" / name).symlink_to(ROOT / "build" / name)
        subprocess.run(["git", "init", "-q", "-b", "main", str(self.root)],
                       check=True)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def check(self, script, *arguments, skips=True, **environment):
        done = subprocess.run(
            [sys.executable, "-B", str(HERE / script), str(self.root),
             *map(str, arguments)], capture_output=True, text=True,
            check=False, env={**os.environ, **environment})
        if skips and done.returncode == 77:
            self.skipTest(done.stdout.strip())
        return done.returncode, done.stdout + done.stderr

    def analyse(self, sources, *named, options=""):
        for path, text in sources.items():
            self.write(path, text)
        self.write("build/compile_commands.json", json.dumps([
            {"directory": str(self.root), "file": str(self.root / path),
             "command": f"c++ -std=c++20 -I{self.root} {options} -c "
                        f"{self.root / path}"}
            for path in sources if path.endswith(".cc")]))
        return self.check("analyse_sources.py", self.root / "build",
                          *(self.root / path for path in named))

    def test_cpp_that_clang_format_writes_otherwise(self):
        file = self.write("core/a.cc", "int  x;\nint y;\nint\tz;\n")
        status, text = self.check("format_sources.py", "c++")
        self.assertEqual(1, status, text)
        self.assertIn("core/a.cc:1: not as clang-format writes it\n"
                      "core/a.cc:3: not as", text)
        self.assertEqual((0, ""), self.check("format_sources.py", "c++",
                                             "--fix", file))
        self.assertEqual("int x;\nint y;\nint z;\n", file.read_text())
        self.assertEqual((0, ""), self.check("format_sources.py", "c++"))

    def test_rust_that_rustfmt_writes_otherwise(self):
        self.write("core/text/crate/Cargo.toml", 'edition = "2021"\n')
        file = self.write("core/text/crate/src/a.rs", "fn f( ) {}\n")
        status, text = self.check("format_sources.py", "rust")
        self.assertEqual(1, status, text)
        self.assertIn("core/text/crate/src/a.rs:1: not as rustfmt", text)
        self.check("format_sources.py", "rust", "--fix")
        self.assertEqual("fn f() {}\n", file.read_text())

    def test_files_that_are_named_are_the_only_ones(self):
        self.write("core/a.cc", "int  x;\n")
        good = self.write("core/b.cc", "int x;\n")
        self.assertEqual((0, ""), self.check("format_sources.py", "c++", good))

    def test_a_member_touched_without_its_lock(self):
        status, text = self.analyse(
            {"core/a/b.cc": GUARDED % "mutex_.Lock()"})
        self.assertEqual(0, status, text)
        status, text = self.analyse({"core/a/b.cc": GUARDED % "value_ = 1"})
        self.assertEqual(1, status, text)
        self.assertIn("core/a/b.cc:9: writing variable 'value_' requires",
                      text)

    def test_checks_of_clang_tidy(self):
        status, text = self.analyse({"server/b.cc": (
            "#include <string>\n#include <utility>\n"
            "std::string Twice(std::string a) {\n"
            "  std::string b = std::move(a);\n  return b + a;\n}\n")})
        self.assertEqual(1, status, text)
        self.assertIn("server/b.cc:5: 'a' used after it was moved", text)

    def test_a_header_speaks_once_for_all_that_include_it(self):
        header = ("#ifndef H\n#define H\nstruct A {\n  int F() { int b; "
                  "return b; }\n};\n#endif\n")
        source = '#include "core/a/a.h"\n'
        tree = {"core/a/a.h": header, "core/a/b.cc": source,
                "core/a/c.cc": source}
        status, text = self.analyse(tree, options="-Wall")
        self.assertEqual(1, status, text)
        self.assertEqual(1, text.count("core/a/a.h:4: variable 'b' is"), text)
        self.assertIn("Clang reads 2 of 2 sources", text)
        self.assertIn("Clang reads 1 of 1 sources",
                      self.analyse(tree, "core/a/a.h", options="-Wall")[1])

    def test_what_does_not_compile_is_no_pass(self):
        status, text = self.analyse({"core/a/b.cc": "int F() { return x; }\n"})
        self.assertEqual(1, status, text)
        self.assertIn("use of undeclared identifier 'x'", text)

    def test_only_what_changed_since_it_was_clean_is_read_again(self):
        def read(tree, options=""):
            status, text = self.analyse(tree, options=options)
            return status, text.splitlines()[0]

        tree = {"core/a/a.h": "#ifndef H\n#define H\nint F();\n#endif\n",
                "core/a/b.cc": '#include "core/a/a.h"\n',
                "core/a/c.cc": "int C();\n"}
        clean = "; the others are as they were when it found nothing"
        self.assertEqual((0, "Clang reads 2 of 2 sources"), read(tree))
        self.assertEqual((0, f"Clang reads 0 of 2 sources{clean}"), read(tree))
        tree["core/a/a.h"] = tree["core/a/a.h"].replace("F()", "g_x = NULL")
        for _ in range(2):  # a source with a finding has no record
            self.assertEqual((1, f"Clang reads 1 of 2 sources{clean}"),
                             read(tree))
        tree["core/a/a.h"] = tree["core/a/a.h"].replace("g_x = NULL", "G()")
        self.assertEqual((0, f"Clang reads 1 of 2 sources{clean}"), read(tree))
        self.assertEqual((0, "Clang reads 2 of 2 sources"),
                         read(tree, "-DNDEBUG"))
        config = (self.root / ".clang-tidy").read_text(encoding="utf-8")
        self.write(".clang-tidy", config + "# another\n")
        self.assertEqual((0, "Clang reads 2 of 2 sources"),
                         read(tree, "-DNDEBUG"))

    def test_a_build_whose_warnings_are_errors_changes_no_finding(self):
        source = {"core/a/b.cc": "[[deprecated]] int F();\n"
                                 "int G() { return F(); }\n"}
        for options in ("-Wall", "-Wall -Werror"):
            status, text = self.analyse(source, options=options)
            self.assertEqual(0, status, text)

    def test_sources_on_torch_are_left_out(self):
        status, text = self.analyse({"core/a/b.cc": "broken"},
                                    options="-include cmake_pch.hxx")
        self.assertEqual((0, "Clang reads 0 of 0 sources\n"), (status, text))

    def test_without_its_tool_a_check_says_so(self):
        self.write("core/a.cc", "int x;\n")
        (self.root / "build/venv").unlink(missing_ok=True)
        git = self.root / "git"
        git.symlink_to(shutil.which("git"))
        for script, argument in (("format_sources.py", "c++"),
                                 ("analyse_sources.py", "build")):
            status, text = self.check(script, argument, skips=False,
                                      PATH=str(self.root))
            self.assertEqual(77, status, text)
            self.assertIn("SKIPPED: no clang-", text)

    def test_lint_sh_looks_at_what_changed(self):
        def git(*arguments):
            subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a",
                            "-c", "user.email=a@b", *arguments], check=True)

        for folder in ("tests/lint", "tests/contract", "tests/deploy"):
            shutil.copytree(ROOT / folder, self.root / folder)
        shutil.copy(ROOT / "tests/lint.sh", self.root / "tests")
        (self.root / "deploy").mkdir()
        (self.root / ".ci").mkdir()
        self.write(".gitignore", "/build/\n")
        self.write("core/old.cc", "int  x;\n")
        git("add", ".")
        git("commit", "-qm", "a")
        lint = [str(self.root / "tests/lint.sh")]
        done = subprocess.run(lint, capture_output=True, text=True, check=False)
        self.assertEqual((0, "lint: nothing changed\n"),
                         (done.returncode, done.stdout), done.stderr)
        git("checkout", "-qb", "branch")
        self.write("core/new.cc", "int  y;\n")
        done = subprocess.run(lint, capture_output=True, text=True, check=False)
        if "SKIPPED: no clang-format" in done.stdout:
            self.skipTest(done.stdout)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("core/new.cc:1: not as clang-format", done.stdout)
        self.assertNotIn("core/old.cc:1: not as clang-format", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
