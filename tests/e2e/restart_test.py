# SPDX-License-Identifier: Apache-2.0
"""Deaths of the worker and of the daemon in the middle of a run. The adapter
that comes out is, to the byte, that of a run nobody disturbed."""

import os
import signal
import unittest

import harness

STEPS = 240
TRAINING = {"max_steps": STEPS, "save_steps": 10, "learning_rate": 0.001}


class RestartTest(harness.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        run = harness.undisturbed_run(cls, TRAINING)
        cls.expected = (run / "adapter/adapter_model.safetensors").read_bytes()

    def submit(self, daemon):
        job = daemon.submit(harness.write_job(self.folder, training=TRAINING))
        return job["id"]

    def check_end(self, daemon, watch, attempts):
        job = watch.finish()
        self.assertEqual(0, watch.code, watch.said())
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(attempts, job["attempt"])
        self.assertEqual(STEPS, watch.steps()[-1])
        resumed = [b for a, b in zip(watch.steps(), watch.steps()[1:])
                   if b <= a]
        self.assertNotIn(1, resumed, "started over instead of resuming")
        adapter = self.download(daemon, job["id"])
        self.assertEqual(
            self.expected, (adapter / "adapter_model.safetensors").read_bytes(),
            "another adapter than an undisturbed run's")

    def test_worker_killed(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(20)
            os.kill(self.pause(daemon), signal.SIGKILL)
            queued = watch.until(
                lambda e: e.get("state", {}).get("state") == "QUEUED")
            self.assertIn("SIGKILL", queued["state"]["message"])
            self.check_end(daemon, watch, attempts=2)

    def test_daemon_killed(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            daemon.kill()
            os.kill(worker, signal.SIGCONT)
            daemon.start()
            self.check_end(daemon, watch, attempts=2)

    def test_daemon_and_worker_killed(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            daemon.kill()
            os.kill(worker, signal.SIGKILL)
            daemon.start()
            self.check_end(daemon, watch, attempts=2)

    def test_every_checkpoint_damaged(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        checkpoints = self.folder / f"state/jobs/{job_id}/out/checkpoints"
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            daemon.kill()
            os.kill(worker, signal.SIGKILL)
            for folder in checkpoints.glob("step-*"):
                os.truncate(folder / "optimizer.safetensors", 10)
            daemon.start()
            job = watch.finish()
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        adapter = self.download(daemon, job_id)
        self.assertEqual(
            self.expected, (adapter / "adapter_model.safetensors").read_bytes())
        self.assertIn("the run starts over", daemon.ctl("logs", job_id).stdout)
        self.assertTrue((checkpoints / "step-10.damaged").is_dir())
        self.assertEqual(
            {c["step"] for c in daemon.ctl_json("checkpoints", job_id)},
            {int(p.name[5:]) for p in checkpoints.glob("step-*[0-9]")})

    def test_daemon_stopped(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            daemon.process.terminate()
            os.kill(worker, signal.SIGCONT)
            self.assertEqual(0, daemon.process.wait(harness.TIMEOUT),
                             daemon.said())
            self.assertEqual([], harness.children(daemon.process.pid))
            daemon.start()
            self.check_end(daemon, watch, attempts=2)
            states = [e["state"]["state"] for e in watch.events
                      if isinstance(e.get("state"), dict)]
            self.assertEqual(["QUEUED", "RUNNING", "QUEUED", "RUNNING",
                              "SUCCEEDED"], states)

    def test_cancel_while_running(self):
        daemon = self.daemon(*harness.slow_disk(15))
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(10)
            worker = self.pause(daemon)
            answer = daemon.ctl_json("cancel", job_id)[0]
            self.assertEqual("RUNNING", answer["state"])
            self.assertTrue(answer["cancel_requested"])
            os.kill(worker, signal.SIGCONT)
            job = watch.finish()
            self.assertEqual("CANCELLED", job["state"])
            self.assertEqual(5, watch.code)
            self.assertLess(watch.steps()[-1], STEPS)
        self.assertEqual("CANCELLED",
                         daemon.ctl_json("cancel", job_id)[0]["state"])

    def test_cancel_while_queued(self):
        daemon = self.daemon(*harness.slow_disk(15))
        first = self.submit(daemon)
        with daemon.watch(first) as watch:
            watch.until_checkpoint(10)
            worker = self.pause(daemon)
            second = self.submit(daemon)
            self.assertEqual(0, daemon.show(second)["queue_position"])
            answer = daemon.ctl_json("cancel", second)[0]
            self.assertEqual("CANCELLED", answer["state"])
            self.assertEqual(5, daemon.ctl("watch", second).returncode)
            daemon.ctl("cancel", first)
            os.kill(worker, signal.SIGCONT)
            watch.finish()
        self.assertEqual(0, daemon.show(second)["attempt"])


if __name__ == "__main__":
    unittest.main()
