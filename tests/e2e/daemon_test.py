# SPDX-License-Identifier: Apache-2.0
"""The daemon and its client as programs: one daemon a state folder, who may
reach it, what a user reads when nobody is there."""

import os
import stat
import subprocess
import unittest

import harness


class DaemonTest(harness.EndToEndTest):
    def test_a_second_daemon_is_refused(self):
        daemon = self.daemon(worker="fake_worker")
        second = subprocess.run(daemon.command, capture_output=True, text=True,
                                env=daemon.env, timeout=harness.TIMEOUT,
                                check=False)
        self.assertNotEqual(0, second.returncode)
        self.assertIn(str(daemon.process.pid), second.stderr + second.stdout)
        self.assertEqual(0, daemon.ctl("info").returncode)

    def test_the_socket_is_the_users_alone(self):
        daemon = self.daemon(worker="fake_worker")
        mode = os.stat(daemon.state_dir).st_mode
        self.assertEqual(0o700, stat.S_IMODE(mode))
        self.assertTrue(stat.S_ISSOCK(
            os.stat(daemon.state_dir / "mpsd.sock").st_mode))

    def test_idle_daemon_stops_at_once(self):
        daemon = self.daemon(worker="fake_worker")
        self.assertEqual(0, daemon.terminate(), daemon.said())
        after = daemon.ctl("info")
        self.assertEqual(3, after.returncode)
        self.assertIn(str(daemon.state_dir / "mpsd.sock"), after.stderr)
        self.assertIn("mpsd --state-dir", after.stderr)

    def test_info(self):
        daemon = self.daemon(worker="fake_worker")
        info, = daemon.ctl_json("info")
        self.assertEqual(str(daemon.state_dir), info["state_dir"])
        self.assertEqual((0, 0), (info["queued_jobs"], info["running_jobs"]))
        self.assertGreater(info["disk_free_bytes"], 0)

    def test_jobs_outlive_the_daemon(self):
        daemon = self.daemon(worker="fake_worker")
        job = daemon.submit(harness.write_job(self.folder))
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        daemon.kill()
        daemon.start()
        self.assertEqual("SUCCEEDED", daemon.show(job["id"])["state"])
        self.assertEqual([job["id"]],
                         [j["id"] for j in daemon.ctl_json("list")])

    def test_short_ids(self):
        daemon = self.daemon(worker="fake_worker")
        job = daemon.submit(harness.write_job(self.folder))
        shown = daemon.show(job["id"][-6:].lower())
        self.assertEqual(job["id"], shown["id"])

    def test_no_such_job(self):
        daemon = self.daemon(worker="fake_worker")
        for verb in ("show", "watch", "logs", "cancel", "checkpoints"):
            for job_id in ("0" * 26, "nothing"):
                result = daemon.ctl(verb, job_id)
                self.assertEqual(4, result.returncode, result.stderr)
                self.assertIn("mpsctl list", result.stderr)

    def test_a_broken_configuration_is_refused(self):
        for options in (("--frobnicate",), ("--max-failures", "none"),
                        ("--worker", "/nonexistent/worker")):
            result = subprocess.run(
                [str(harness.BIN / "mpsd"), "--state-dir",
                 str(self.folder / "state"), *options], capture_output=True,
                text=True, env=harness.environment(), timeout=harness.TIMEOUT,
                check=False)
            self.assertNotEqual(0, result.returncode, options)
            self.assertIn(options[0 if len(options) == 1 else 1].lstrip("-"),
                          result.stderr + result.stdout)


if __name__ == "__main__":
    unittest.main()
