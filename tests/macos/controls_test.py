# SPDX-License-Identifier: Apache-2.0
"""What must not pass for a Mac's does not: the compiler, the lists of exports
and the checks of programs refuse what each of them is there for."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import cross_build
import exports
import fetch
import macho
import tbd

TARGET = "-mmacosx-version-min=15.0"
HELLO = """\
#include <unistd.h>
extern "C" int mpsd_elsewhere(int);
int main() { return mpsd_elsewhere(getpid()); }
"""
SYSTEM = "/usr/lib/libSystem.B.dylib"


class ControlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.environment = cross_build.tools()
        cls.known = exports.Exports(fetch.zig_dir(), fetch.torch_dir(),
                                    cross_build.libcxx(cls.environment))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd-controls."))
        self.addCleanup(shutil.rmtree, self.folder)

    def compiler(self, *arguments):
        return subprocess.run(
            [cross_build.MACOS / "bin/c++", *arguments], text=True,
            env=self.environment, cwd=self.folder, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def compiled(self, text, target=TARGET):
        (self.folder / "control.cc").write_text(text)
        return self.compiler("-std=c++20", target, "-isystem",
                             cross_build.MACOS / "include", "-c", "control.cc",
                             "-o", "control.o")

    def refused(self, text, words, target=TARGET):
        run = self.compiled(text, target)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(words, run.stdout)

    def unknown(self, text):
        """What the compiled text needs and no library exports."""
        run = self.compiled(text)
        self.assertEqual(run.returncode, 0, run.stdout)
        file = macho.read(self.folder / "control.o")
        return self.known.assign(
            set(cross_build.needed([("control.o", file)])))[1]

    def test_headers_of_linux(self):
        self.refused("#include <sys/epoll.h>\n", "sys/epoll.h")
        self.refused("#include <sys/prctl.h>\n", "sys/prctl.h")

    def test_functions_of_linux(self):
        self.refused("#include <unistd.h>\n#include <fcntl.h>\n"
                     "int f(int* p) { return pipe2(p, O_CLOEXEC); }\n", "pipe2")
        self.refused("#include <fcntl.h>\n"
                     "int f(int d) { return posix_fadvise(d, 0, 0, 0); }\n",
                     "posix_fadvise")

    def test_a_standard_library_newer_than_the_system(self):
        text = ("#include <charconv>\nvoid f(char* to, double d) {\n"
                "  std::to_chars(to, to + 64, d);\n}\n")
        run = self.compiled(text)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.refused(text, "introduced in macOS 13.4",
                     "-mmacosx-version-min=13.0")

    def test_symbols_that_no_library_exports(self):
        for text, name in [
            ('extern "C" int mpsd_elsewhere();\n'
             "int f() { return mpsd_elsewhere(); }\n", "_mpsd_elsewhere"),
            # Linux has it, declared by hand or not.
            ('extern "C" int pipe2(int*, int);\n'
             "int f(int* p) { return pipe2(p, 0); }\n", "_pipe2"),
            # A slip in the name of a framework's function.
            ('extern "C" void* IOServiceMatchin(const char*);\n'
             'void* f() { return IOServiceMatchin("x"); }\n',
             "_IOServiceMatchin"),
            # libpng and Abseil have no such thing.
            ('extern "C" void png_read_imagine(void*);\n'
             "void f() { png_read_imagine(nullptr); }\n", "_png_read_imagine"),
            ("#include <string>\nnamespace absl { std::string StrCatt(int); }\n"
             "auto f() { return absl::StrCatt(1); }\n", "StrCatt"),
            # What torch has, with other types.
            ("namespace at { void manual_seed(const char*); }\n"
             'void f() { at::manual_seed("x"); }\n', "manual_seed"),
        ]:
            with self.subTest(name=name):
                unknown = self.unknown(text)
                self.assertEqual(len(unknown), 1)
                self.assertIn(name, unknown[0])

    def test_symbols_that_somebody_exports(self):
        self.assertEqual(self.unknown(
            "#include <png.h>\n#include <spawn.h>\n#include <string>\n"
            '#include "absl/strings/numbers.h"\n'
            'extern "C" unsigned notify_get_state(int, void*);\n'
            'extern "C" void* objc_autoreleasePoolPush(void);\n'
            "bool f(const std::string& s, long long* n, png_structp p) {\n"
            "  png_read_end(p, nullptr);\n  notify_get_state(0, n);\n"
            "  objc_autoreleasePoolPush();\n"
            "  posix_spawn(nullptr, nullptr, nullptr, nullptr, nullptr, "
            "nullptr);\n"
            "  return absl::numbers_internal::safe_strto64_base(s, n, 10);\n"
            "}\n"), [])

    def program(self, target=TARGET):
        """A program linked to libSystem and a library of its own."""
        self.assertEqual(self.compiled(HELLO, target).returncode, 0)
        tbd.write(self.folder / "libelse.tbd", "/opt/libelse.dylib",
                  {"_mpsd_elsewhere"})
        run = self.compiler(target, "control.o", "libelse.tbd", "-o", "hello",
                            "-Wl,-rpath,@loader_path/../lib")
        self.assertEqual(run.returncode, 0, run.stdout)
        return macho.read(self.folder / "hello")

    def problems(self, file, symbols=frozenset({"_mpsd_elsewhere"}),
                 dylibs=frozenset({SYSTEM, "/opt/libelse.dylib"}),
                 rpaths=("@loader_path/../lib",)):
        libraries = {**self.known.libraries, "/opt/libelse.dylib": symbols}
        return list(cross_build.program_problems(
            file, "hello", libraries, set(dylibs), list(rpaths)))

    def test_a_missing_library_does_not_link(self):
        self.assertEqual(self.compiled(HELLO).returncode, 0)
        run = self.compiler(TARGET, "control.o", "-o", "hello")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("mpsd_elsewhere", run.stdout)

    def test_programs_that_differ_from_what_is_meant(self):
        file = self.program()
        self.assertEqual(self.problems(file), [])
        for words, problems in [
            ("_mpsd_elsewhere is bound to /opt/libelse.dylib",
             self.problems(file, symbols=frozenset())),
            ("is linked to /opt/libelse.dylib",
             self.problems(file, dylibs=frozenset({SYSTEM}))),
            ("is not linked to /x", self.problems(
                file, dylibs=frozenset({SYSTEM, "/opt/libelse.dylib", "/x"}))),
            ("has the rpaths", self.problems(file, rpaths=())),
            ("is for macOS (14, 0)",
             self.problems(self.program("-mmacosx-version-min=14.0"))),
        ]:
            with self.subTest(words=words):
                self.assertEqual(len(problems), 1, problems)
                self.assertIn(words, problems[0])

    def test_an_object_for_another_system(self):
        self.assertEqual(
            self.compiled("", "-mmacosx-version-min=14.0").returncode, 0)
        file = macho.read(self.folder / "control.o")
        self.assertIn("is for macOS (14, 0)", list(
            cross_build.object_problems([("control.o", file)]))[0])

    @unittest.skipUnless(shutil.which("llvm-nm"), "no llvm-nm here")
    def test_llvm_reads_the_same(self):
        file = self.program()
        listed = subprocess.run(
            ["llvm-nm", "-m", self.folder / "hello"], text=True,
            capture_output=True, check=True).stdout
        for symbol in file.undefined():
            library = pathlib.Path(file.dylibs[symbol.library - 1]).name
            self.assertRegex(listed, f"{symbol.name} \\(from "
                                     f"{library.split('.')[0]}")
        self.assertEqual(len(file.undefined()), listed.count("(undefined)"))


if __name__ == "__main__":
    missing = fetch.missing()
    if missing:
        print(f"SKIPPED: {' and '.join(missing)} not here: "
              "run tests/macos/fetch.py")
        sys.exit(cross_build.SKIPPED)
    unittest.main()
