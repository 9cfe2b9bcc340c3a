# SPDX-License-Identifier: Apache-2.0
"""No job starts on a device that fails its self-test; mpsctl says so."""

import time
import unittest

import harness


class SelftestTest(harness.EndToEndTest):
    def job(self):
        return harness.write_job(self.folder, training={"max_steps": 2})

    def wait_for_reason(self, daemon, words):
        deadline = time.monotonic() + harness.TIMEOUT
        while True:
            said = daemon.ctl("info").stdout
            if words in said or time.monotonic() > deadline:
                self.assertIn(words, said)
                return
            time.sleep(0.05)

    def test_a_device_that_fails_gets_no_job_until_it_is_trusted(self):
        daemon = self.daemon(worker="fake_worker", selftest=True,
                             env={"FAKE_WORKER_SELFTEST": "1"})
        job = daemon.submit(self.job())
        self.wait_for_reason(daemon, "the self-test of the device failed")
        self.assertEqual("QUEUED", daemon.show(job["id"])["state"])
        daemon.await_said("self-test of the device failed")
        self.assertEqual(0, daemon.terminate(), daemon.said())
        daemon.command.append("--skip-selftest")
        daemon.start()
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])

    def test_one_that_passes_trains(self):
        daemon = self.daemon(worker="fake_worker", selftest=True)
        job = daemon.submit(self.job())
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        self.assertNotIn("jobs wait", daemon.ctl("info").stdout)

    def test_the_real_worker_is_asked(self):
        daemon = self.daemon(selftest=True)
        job = daemon.submit(self.job())
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        log = (daemon.state_dir / "log/selftest.log").read_text()
        self.assertIn("self-test", log)


if __name__ == "__main__":
    unittest.main()
