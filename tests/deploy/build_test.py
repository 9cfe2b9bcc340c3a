# SPDX-License-Identifier: Apache-2.0
"""What deploy/build.sh prints and passes on, what .ci/run asks of it, and how
tests/sanitizers/run.sh ends, with a fake cmake, ninja and ctest.

    build_test.py ROOT
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Finishes three steps, prints a compiler's warning between them.
NINJA = """#!/bin/sh
case " $* " in
  *" -t commands "*) yes command | head -n "${NINJA_STEPS:-3}"; exit 0 ;;
esac
echo "arguments: $*" >>"$LOG"
[ -t 1 ] && echo "a terminal" && exit 0
status() { printf '%s\\n' "$NINJA_STATUS" | sed "s/%f/$1/; s/%t/3/"; }
echo "ninja: Entering directory 'x'"
echo "$(status 1)Building a.cc"
sleep "${NINJA_PAUSE:-0}"
echo "$(status 2)Building b.cc"
echo "b.cc:1: warning: odd"
echo "$(status 3)Linking c"
exit "${NINJA_EXIT:-0}"
"""
CMAKE = """#!/bin/sh
echo "cmake: $*" >>"$LOG"
"""
# Fails the preset that $FAILS names.
CTEST = """#!/bin/sh
echo "ctest: $*" >>"$LOG"
[ "$2" != "${FAILS:-}" ]
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "build/release").mkdir(parents=True)
        for script in ("deploy/build.sh", "tests/sanitizers/run.sh",
                       "tests/run.sh", ".ci/run"):
            (self.root / script).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / script, self.root / script)
        programs = self.root / "programs"
        programs.mkdir()
        for file, text in ((programs / "ninja", NINJA),
                           (programs / "cmake", CMAKE),
                           (programs / "ctest", CTEST),
                           (self.root / "deploy/setup.sh",
                            '#!/bin/sh\necho "setup: $*" >>"$LOG"\n')):
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755)
        self.log = self.root / "log"
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}", "LOG": str(self.log),
            "MPSD_PROGRESS_SECONDS": "2"}

    def build(self, *arguments, script="deploy/build.sh",
              stdout=subprocess.PIPE, **environment):
        return subprocess.run(
            [str(self.root / script), *arguments], stdout=stdout,
            stderr=subprocess.PIPE, text=True, check=False,
            env={**self.environment, **environment})

    def logged(self):
        return self.log.read_text(encoding="utf-8")

    def test_a_pipe_gets_a_line_now_and_then_and_what_compilers_say(self):
        # Between the lines lies what a busy machine may add to either side.
        done = self.build("mpsd", NINJA_PAUSE="3")
        self.assertEqual(0, done.returncode, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("build: 2 of 3, 0 min", lines)
        self.assertIn("b.cc:1: warning: odd", lines)
        self.assertIn("build/release/bin is up to date", lines[-1])
        for what in ("1 of 3", "Building", "Entering directory"):
            self.assertNotIn(what, done.stdout)
        self.assertIn(" mpsd\n", self.logged())

    def test_the_client_alone_needs_no_torch(self):
        self.build("mpsctl")
        self.assertIn("setup: --client\n", self.logged())
        self.assertIn("-DMPSD_CLIENT_ONLY=ON", self.logged())
        self.log.unlink()
        self.build("mpsctl", "mpsd")
        (self.root / "build/venv/lib/python3.1/site-packages/torch").mkdir(
            parents=True)
        self.build("mpsctl")
        self.assertNotIn("setup:", self.logged())
        self.assertNotIn("CLIENT_ONLY=ON", self.logged())

    def test_the_first_build_says_its_steps_and_no_time(self):
        done = self.build("mpsd", NINJA_STEPS="480")
        self.assertIn("the first build has 480 steps\n", done.stdout)
        (self.root / "build/release/.ninja_log").touch()
        self.assertNotIn("480", self.build("mpsd", NINJA_STEPS="480").stdout)

    def test_a_terminal_gets_ninjas_own_progress(self):
        ours, its = os.openpty()
        done = self.build(stdout=its)
        os.close(its)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(b"a terminal", os.read(ours, 4096))
        os.close(ours)

    def test_a_failed_build_fails(self):
        done = self.build(NINJA_EXIT="3")
        self.assertEqual(3, done.returncode)
        self.assertNotIn("up to date", done.stdout)

    def test_warnings_are_errors_only_where_asked(self):
        self.build("--tests")
        self.assertNotIn("WERROR", self.logged())
        self.build("--tests", MPSD_WERROR="ON")
        self.assertIn("-DMPSD_WERROR=ON", self.logged())

    def test_what_checks_each_change_asks_for_it(self):
        done = self.build(script="tests/run.sh")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("WERROR", self.logged())
        done = self.build(script=".ci/run")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("-DMPSD_WERROR=ON", self.logged())

    def test_a_preset_is_built_in_its_own_folder(self):
        done = self.build("--preset", "asan", "core_base_test")
        self.assertIn("build/asan/bin is up to date", done.stdout)
        self.assertIn("--preset asan", self.logged())
        self.assertNotIn("-DCMAKE_BUILD_TYPE", self.logged())
        self.assertRegex(self.logged(), r"-C \S+/build/asan .* core_base_test")

    def test_both_sanitizers_run_no_matter_what_the_first_finds(self):
        done = self.build("-R", "x", script="tests/sanitizers/run.sh",
                          FAILS="asan")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertEqual(["sanitizers: asan: FAILED",
                          "sanitizers: tsan: passed"],
                         done.stdout.splitlines()[-2:])
        self.assertIn("ctest: --preset tsan -j 4 -R x\n", self.logged())

    def test_one_sanitizer_alone(self):
        done = self.build("tsan", script="tests/sanitizers/run.sh")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("asan", done.stdout + self.logged())

    def test_a_sanitizer_whose_build_fails_has_not_passed(self):
        done = self.build("asan", script="tests/sanitizers/run.sh",
                          NINJA_EXIT="1")
        self.assertEqual(1, done.returncode)
        self.assertIn("sanitizers: asan: FAILED", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
