# SPDX-License-Identifier: Apache-2.0
"""The real programs, installed for a user in a temporary home: what the service
manager would start does start, and needs nothing of the build.

    installed_test.py ROOT     with MPSD_BIN_DIR
"""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class InstalledTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="mpsd-home."))
        self.addCleanup(shutil.rmtree, self.home)
        self.environment = dict(os.environ, HOME=str(self.home),
                                SYSTEMD_RUN="/none")
        for name in ("DESTDIR", "XDG_CONFIG_HOME", "MPSD_STATE_DIR",
                     "MPSD_SERVER", "LD_LIBRARY_PATH"):
            self.environment.pop(name, None)

    def run_here(self, *command):
        run = subprocess.run(command, env=self.environment, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)
        return run.stdout

    def command(self):
        """What systemd would run."""
        unit = self.home / ".config/systemd/user/mpsd.service"
        lines = [line for line in unit.read_text().splitlines()
                 if line.startswith("ExecStart=")]
        return shlex.split(lines[0].partition("=")[2])

    def await_daemon(self, daemon):
        mpsctl = self.home / ".local/bin/mpsctl"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            self.assertIsNone(daemon.poll(), "mpsd ended while starting")
            info = subprocess.run([mpsctl, "info"], env=self.environment,
                                  text=True, capture_output=True, check=False)
            if info.returncode == 0:
                return info.stdout
            time.sleep(0.1)
        return self.fail("mpsd did not answer")

    @unittest.skipUnless(sys.platform == "linux", "reads ldd and a unit")
    def test_what_is_installed_runs_by_itself(self):
        self.run_here(ROOT / "deploy/install.sh", "--user", "--build",
                      os.environ["MPSD_BIN_DIR"])
        worker = self.home / ".local/bin/mpsd-worker"
        self.assertIn("torch", self.run_here(worker, "--version"))
        own = self.home / ".local/lib/mpsd"
        if own.exists():  # with CUDA torch stays where it is
            libraries = self.run_here("ldd", worker)
            self.assertIn(f"libtorch_cpu.so => {worker.parent}/../lib/mpsd/",
                          libraries)
            self.assertNotIn("/site-packages/", libraries)
        # An option of mpsd.toml takes the place of its default.
        toml = self.home / ".local/state/mpsd/mpsd.toml"
        toml.write_text(toml.read_text() + 'metrics-address = "off"\n')
        daemon = subprocess.Popen(self.command(), env=self.environment,
                                  stderr=subprocess.DEVNULL)
        try:
            self.assertIn(str(self.home / ".local/state/mpsd"),
                          self.await_daemon(daemon))
            daemon.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(60), 0)
        finally:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
        log = (self.home / ".local/state/mpsd/log/mpsd.log").read_text()
        self.assertIn("serves", log)
        self.run_here(ROOT / "deploy/uninstall.sh", "--user")
        self.assertEqual(sorted(p.name for p in self.home.rglob("mpsd*")
                                if p.is_file()),
                         ["mpsd.db", "mpsd.log", "mpsd.toml"])


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
