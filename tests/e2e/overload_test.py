# SPDX-License-Identifier: Apache-2.0
"""More connections than the daemon has descriptors for, and a daemon that no
client can reach any more."""

import contextlib
import os
import resource
import signal
import socket
import time

import harness


class OverloadTest(harness.EndToEndTest):
    def limited_daemon(self, soft, hard):
        """As a shell starts it with these limits of open files."""
        daemon = self.unstarted(worker="fake_worker")
        daemon.command = ["/bin/sh", "-c", f"ulimit -Sn {soft}; "
                          f"ulimit -Hn {hard}; exec \"$@\"", "sh",
                          *daemon.command]
        return daemon.start()

    def connect(self, daemon, stack, count):
        """Plain connections that say nothing."""
        for _ in range(count):
            connection = stack.enter_context(
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.settimeout(harness.TIMEOUT)
            connection.connect(str(daemon.state_dir / "mpsd.sock"))

    def answers(self, daemon):
        daemon.says("info")

    def descriptors(self, daemon):
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    def test_connections_that_come_and_go(self):
        daemon = self.limited_daemon(256, 256)
        for _ in range(3):
            with contextlib.ExitStack() as stack:
                self.connect(daemon, stack, 240)
            self.answers(daemon)
        # A job needs descriptors, too: some are kept for it.
        with contextlib.ExitStack() as stack:
            self.connect(daemon, stack, 240)
            time.sleep(0.2)
            if os.path.isdir("/proc/self"):
                self.assertLess(self.descriptors(daemon), 220)
        daemon.succeed(harness.write_job(self.folder))

    def test_connections_that_stay_silent_are_closed(self):
        daemon = self.limited_daemon(256, 256)
        with contextlib.ExitStack() as stack:
            self.connect(daemon, stack, 240)
            # Ten seconds are given to a connection to say what it wants.
            self.eventually(lambda: daemon.ctl("info").returncode == 0,
                            daemon.said)

    def test_the_soft_limit_is_raised(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 1024:
            self.skipTest("the hard limit of this machine is no higher")
        daemon = self.limited_daemon(128, hard if hard > 0 else "unlimited")
        with contextlib.ExitStack() as stack:
            self.connect(daemon, stack, 300)
            self.answers(daemon)

    def test_a_deaf_daemon_ends_and_is_started_again(self):
        daemon = self.daemon("--watchdog-seconds", "8", worker="fake_worker")
        self.answers(daemon)
        (daemon.state_dir / "mpsd.sock").unlink()
        self.assertEqual(70, daemon.process.wait(harness.TIMEOUT),
                         daemon.said())
        self.assertIn("does not answer at", daemon.said())
        self.assertIn("does not answer at",
                      (daemon.state_dir / "log/mpsd.log").read_text())
        self.answers(daemon.start())

    def test_a_daemon_that_was_suspended_is_not_deaf(self):
        # Long enough that a busy machine alone makes no daemon deaf.
        daemon = self.daemon("--watchdog-seconds", "8", worker="fake_worker")
        for _ in range(2):
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(10)
            daemon.process.send_signal(signal.SIGCONT)
            time.sleep(1)
        self.answers(daemon)
        self.assertEqual(0, daemon.terminate(), daemon.said())
