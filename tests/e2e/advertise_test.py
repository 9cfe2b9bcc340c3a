# SPDX-License-Identifier: Apache-2.0
"""mpsd --advertise and mpsctl context find over a real Avahi, on a bus and a
loopback of their own. On a Mac mDNSResponder is there already, and is not asked
here: the test would tell the network of a daemon."""

import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import harness

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration\
 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/>
    <allow send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true"/><allow receive_type="method_call"/>
    <allow receive_type="signal"/><allow receive_requested_reply="true"/>
  </policy>
</busconfig>
"""
AVAHI = """[server]
host-name=mpsd-test
use-ipv6=no
allow-interfaces=lo
disallow-other-stacks=no
[publish]
publish-workstation=no
publish-hinfo=no
"""
PROGRAMS = [shutil.which(name, path="/usr/sbin:/usr/bin:/bin")
            for name in ("dbus-daemon", "avahi-daemon")]


@unittest.skipUnless(all(PROGRAMS) and os.geteuid() == 0
                     and not os.path.exists("/run/avahi-daemon/pid"),
                     "needs root, dbus-daemon, and an avahi-daemon that does not "
                     "run yet")
class AdvertiseTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        (self.folder / "bus.conf").write_text(BUS.format(folder=self.folder))
        (self.folder / "avahi.conf").write_text(AVAHI)
        self.bus = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.folder}/bus"}

    def run_program(self, *command):
        log = open(self.folder / "services.log", "ab")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **self.bus})
        self.addCleanup(process.wait)
        self.addCleanup(harness._signal, process.pid, signal.SIGTERM)
        return process

    def start_bus(self):
        self.run_program(PROGRAMS[0], f"--config-file={self.folder}/bus.conf",
                         "--nofork", "--nopidfile")
        self.wait_for((self.folder / "bus").exists)

    def start_avahi(self):
        self.run_program(
            PROGRAMS[1], "--no-drop-root", "--no-chroot", "--no-rlimits", "-f",
            f"{self.folder}/avahi.conf")
        # Until then nobody can ask it for anything.
        log = self.folder / "services.log"
        self.wait_for(lambda: "Server startup complete" in log.read_text())

    def wait_for(self, condition):
        deadline = time.monotonic() + harness.TIMEOUT
        while not condition():
            # Not there where the test starts no service.
            log = self.folder / "services.log"
            self.assertLess(time.monotonic(), deadline,
                            log.read_text() if log.exists() else "")
            time.sleep(0.05)

    def serve(self, *options):
        self.port = harness.free_port()
        daemon = harness.Daemon(
            self.folder / "state", "--listen", f"0.0.0.0:{self.port}",
            *options, worker="fake_worker", env=self.bus)
        self.addCleanup(daemon.close)
        return daemon

    def log_of(self, daemon):
        return (daemon.state_dir / "log" / "mpsd.log").read_text()

    def find(self):
        found = subprocess.run(
            [str(harness.BIN / "mpsctl"), "--json", "context", "find",
             "--seconds", "2"], capture_output=True, text=True, check=False,
            env=harness.environment(**self.bus), timeout=harness.TIMEOUT)
        self.assertIn(found.returncode, (0, 4), found.stderr)
        self.assertNotIn("WARNING", found.stderr)
        return [json.loads(line) for line in found.stdout.splitlines()]

    def certify(self):
        made = subprocess.run(
            [str(harness.BIN / "mpsd"), "tls", "init", "--state-dir",
             str(self.folder / "state"), "--name", "mpsd-test.local"],
            capture_output=True, text=True, check=False,
            env=harness.environment(), timeout=harness.TIMEOUT)
        self.assertEqual(0, made.returncode, made.stderr)
        return made.stdout

    def test_a_daemon_is_found_until_it_ends(self):
        said = self.certify()
        self.start_bus()
        self.start_avahi()
        daemon = self.serve("--advertise").start()
        self.wait_for(lambda: "advertised to the local network as 'mpsd-test'"
                      in self.log_of(daemon))
        # On a busy machine the answer takes longer than one search.
        searches = []
        self.wait_for(lambda: searches.append(self.find()) or searches[-1])
        found, = searches[-1]
        self.assertEqual("mpsd-test", found["name"])
        self.assertEqual(f"mpsd-test.local:{self.port}", found["address"])
        self.assertRegex(found["ca_fingerprint"], "^SHA256:[0-9A-F:]{95}$")
        self.assertIn(found["ca_fingerprint"], said)
        self.assertNotIn("WARNING", daemon.said())
        daemon.terminate()
        # What was withdrawn stays in caches for a second (RFC 6762, 10.1).
        self.wait_for(lambda: not self.find())

    def test_without_avahi_the_daemon_serves(self):
        self.certify()
        daemon = self.serve("--advertise").start()
        self.wait_for(lambda: "--advertise: DNS-SD: " in self.log_of(daemon))
        self.assertEqual(0, daemon.ctl("info").returncode)
        self.assertEqual(0, daemon.terminate())

    def test_nothing_is_told_unless_it_is_asked_for(self):
        self.certify()
        self.start_bus()
        self.start_avahi()
        self.serve().start()
        self.assertEqual([], self.find())


if __name__ == "__main__":
    unittest.main()
