# SPDX-License-Identifier: Apache-2.0
"""Deaths of the worker and of the daemon in the middle of a run: the adapter that
comes out is, to the byte, that of an undisturbed run. Steps that take longer than
a worker may be silent are no hang, and a daemon that stops does not wait for
their end."""

import json
import math
import os
import signal
import time

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
            queued = watch.until_state("QUEUED")
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
        saved = int(job["progress"]["step"])
        self.assertEqual(saved, job["checkpoint_step"])
        self.assertIn(f"; resumes from step {saved} of {STEPS}.\n",
                      self.mpsd.says("retry", job_id))
        with self.mpsd.watch(job_id) as watch:
            self.check_end(watch, attempts=2)
            steps = watch.steps()[:-1]  # without the job's own
            self.assertEqual(sorted(set(steps)), steps, "steps were repeated")

HANG = 5.0  # s, longer than a busy machine holds a worker up
STEP = 8.0  # s, about


class LivenessTest(harness.EndToEndTest):
    def write_job(self, rows, steps):
        """A job whose every step goes through all rows, one at a time."""
        return harness.write_job(
            self.folder, dataset={"train": ["train.jsonl"], "eval": []},
            rows=[harness.row(*m) for m in harness.MESSAGES] * (rows // 8),
            training={"max_steps": steps, "save_steps": 0,
                      "per_device_train_batch_size": 1,
                      "gradient_accumulation_steps": rows})

    def run_alone(self, path):
        """The seconds of the last step of the worker alone."""
        out = self.folder / "out"
        done = harness.run("mpsd-worker", "--job", path, "--out", out)
        self.assertEqual(0, done.returncode, done.stderr)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return json.loads(lines[-1])["seconds"]

    def undisturbed(self, daemon):
        """A job of two steps, each longer than HANG, that ran to its end: its
        path and itself. The machine's speed swings, so the first guess may
        be too small."""
        rows = 320
        seconds = self.run_alone(self.write_job(rows, 2))
        for _ in range(5):
            rows = 8 * math.ceil(rows * STEP / seconds / 8)
            path = self.write_job(rows, 2)
            job = daemon.finish(daemon.submit(path)["id"])
            seconds = job["progress"]["step_seconds"]
            if seconds > HANG + 0.5:
                return path, job
        self.fail("no job was slow enough")

    def adapter(self, daemon, job):
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        folder = self.download(daemon, job["id"])
        return (folder / "adapter_model.safetensors").read_bytes()

    def test_a_slow_step_is_no_hang_and_can_be_stopped(self):
        daemon = self.daemon("--hang-timeout-seconds", str(HANG),
                             "--max-failures", "1")
        path, job = self.undisturbed(daemon)
        undisturbed = self.adapter(daemon, job)
        self.assertEqual(1, job["attempt"])
        seconds = job["progress"]["step_seconds"]

        job = daemon.submit(path)
        with daemon.watch(job["id"]) as watch:
            watch.until(lambda e: e.get("progress", {}).get("step") == 1)
            time.sleep(seconds / 8)
            self.assertEqual(0, daemon.terminate(), daemon.said())
            daemon.start()
            job = watch.finish()
        # Step 2 is the last: a worker that waited for its end would have
        # finished the job in its first attempt.
        self.assertEqual(2, job["attempt"])
        # The last is the job's own.
        self.assertEqual([1, 2, 2], watch.steps())
        self.assertEqual(undisturbed, self.adapter(daemon, job))
