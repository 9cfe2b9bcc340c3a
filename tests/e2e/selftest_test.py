# SPDX-License-Identifier: Apache-2.0
"""No job starts on a device that fails its self-test; mpsctl says so."""


import harness


class SelftestTest(harness.EndToEndTest):
    def job(self):
        return harness.write_job(self.folder, training={"max_steps": 2})

    def wait_for_reason(self, daemon, words):
        self.eventually(lambda: words in daemon.says("info"))

    def test_a_device_that_fails_gets_no_job_until_it_is_trusted(self):
        daemon = self.daemon(worker="fake_worker", selftest=True,
                             env={"FAKE_WORKER_SELFTEST": "1"})
        job = daemon.submit(self.job())
        self.wait_for_reason(daemon, "the self-test of the device failed")
        self.assertEqual("QUEUED", daemon.state(job["id"]))
        daemon.await_said("self-test of the device failed")
        self.assertEqual(0, daemon.terminate(), daemon.said())
        daemon.command.append("--skip-selftest")
        daemon.start()
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])

    def test_the_real_worker_is_asked_and_trains(self):
        daemon = self.daemon(selftest=True)
        daemon.succeed(self.job())
        self.assertNotIn("jobs wait", daemon.says("info"))
        log = (daemon.state_dir / "log/selftest.log").read_text()
        self.assertIn("self-test", log)
