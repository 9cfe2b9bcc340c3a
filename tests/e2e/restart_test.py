# SPDX-License-Identifier: Apache-2.0
"""Deaths of the worker and of the daemon in the middle of a run. The adapter
that comes out is, to the byte, that of a run nobody disturbed."""

import os
import signal

import harness

STEPS = 240
TRAINING = {"max_steps": STEPS, "save_steps": 10, "learning_rate": 0.001}


class RestartTest(harness.SharedDaemonTest):
    OPTIONS = harness.slow_disk(15)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        harness.undisturbed_run(cls, TRAINING)

    def submit(self):
        return self.mpsd.submit(harness.write_job(
            self.folder, training=TRAINING))["id"]

    def check_end(self, watch, attempts):
        job = watch.finish()
        self.assertEqual(0, watch.code, watch.said())
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(attempts, job["attempt"])
        self.assertEqual(STEPS, watch.steps()[-1])
        resumed = [b for a, b in zip(watch.steps(), watch.steps()[1:])
                   if b <= a]
        self.assertNotIn(1, resumed, "started over instead of resuming")
        self.check_adapter(self.mpsd, job["id"])

    def test_worker_killed(self):
        job_id = self.submit()
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(20)
            os.kill(self.pause(self.mpsd), signal.SIGKILL)
            queued = watch.until(
                lambda e: e.get("state", {}).get("state") == "QUEUED")
            self.assertIn("SIGKILL", queued["state"]["message"])
            self.check_end(watch, attempts=2)

    def test_daemon_killed(self):
        job_id = self.submit()
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(self.mpsd)
            self.mpsd.kill()
            os.kill(worker, signal.SIGCONT)
            self.mpsd.start()
            self.check_end(watch, attempts=2)

    def test_daemon_and_worker_killed(self):
        job_id = self.submit()
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(self.mpsd)
            self.mpsd.kill()
            os.kill(worker, signal.SIGKILL)
            self.mpsd.start()
            self.check_end(watch, attempts=2)

    def test_every_checkpoint_damaged(self):
        job_id = self.submit()
        checkpoints = self.mpsd.state_dir / f"jobs/{job_id}/out/checkpoints"
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(self.mpsd)
            self.mpsd.kill()
            os.kill(worker, signal.SIGKILL)
            for folder in checkpoints.glob("step-*"):
                os.truncate(folder / "optimizer.safetensors", 10)
            self.mpsd.start()
            job = watch.finish()
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.check_adapter(self.mpsd, job_id)
        self.assertIn("the run starts over", self.mpsd.says("logs", job_id))
        self.assertTrue((checkpoints / "step-10.damaged").is_dir())
        self.assertEqual(
            {c["step"] for c in self.mpsd.ctl_json("checkpoints", job_id)},
            {int(p.name[5:]) for p in checkpoints.glob("step-*[0-9]")})

    def test_daemon_stopped(self):
        job_id = self.submit()
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(self.mpsd)
            self.mpsd.process.terminate()
            os.kill(worker, signal.SIGCONT)
            self.assertEqual(0, self.mpsd.process.wait(harness.TIMEOUT),
                             self.mpsd.said())
            self.assertEqual([], harness.children(self.mpsd.process.pid))
            self.mpsd.start()
            self.check_end(watch, attempts=2)
            states = [e["state"]["state"] for e in watch.events
                      if isinstance(e.get("state"), dict)]
            self.assertEqual(["QUEUED", "RUNNING", "QUEUED", "RUNNING",
                              "SUCCEEDED"], states)

    def test_cancel_while_running(self):
        job_id = self.submit()
        with self.mpsd.watch(job_id) as watch:
            watch.until_checkpoint(10)
            worker = self.pause(self.mpsd)
            answer = self.mpsd.ctl_json("cancel", job_id)[0]
            self.assertEqual("RUNNING", answer["state"])
            self.assertTrue(answer["cancel_requested"])
            os.kill(worker, signal.SIGCONT)
            job = watch.finish()
            self.assertEqual("CANCELLED", job["state"])
            self.assertEqual(5, watch.code)
            self.assertLess(watch.steps()[-1], STEPS)
        self.assertEqual("CANCELLED",
                         self.mpsd.ctl_json("cancel", job_id)[0]["state"])

    def test_cancel_while_queued(self):
        first = self.submit()
        with self.mpsd.watch(first) as watch:
            watch.until_checkpoint(10)
            worker = self.pause(self.mpsd)
            second = self.submit()
            self.assertEqual(0, self.mpsd.show(second)["queue_position"])
            answer = self.mpsd.ctl_json("cancel", second)[0]
            self.assertEqual("CANCELLED", answer["state"])
            self.mpsd.says("watch", second, code=5)
            self.mpsd.ctl("cancel", first)
            os.kill(worker, signal.SIGCONT)
            watch.finish()
        self.assertEqual(0, self.mpsd.show(second)["attempt"])
