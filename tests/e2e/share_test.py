# SPDX-License-Identifier: Apache-2.0
"""The device divided by priority and by time: a job that gives way, is killed
on the way, or reaches its limit comes out, to the byte, as one that nobody
disturbed."""

import json
import os
import signal
import time

import harness

STEPS = 240
TRAINING = {"max_steps": STEPS, "save_steps": 10, "learning_rate": 0.001}
AT_ONCE = ("--preempt", "--preempt-margin-seconds", "0",
           "--preempt-min-run-seconds", "0")


def curve(folder):
    """What each step reported, but for times and memory."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key] for key in
                  ("step", "loss", "grad_norm", "learning_rate", "tokens"))
            for line in lines]


class ShareTest(harness.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        run = harness.undisturbed_run(cls, TRAINING)
        cls.curve = curve(run)

    def daemon(self, *options):
        return super().daemon(*harness.slow_disk(15), *options)

    def submit(self, daemon, *options, name="job.json", **changes):
        job = harness.write_job(self.folder, name, **{
            "training": TRAINING, **changes})
        return daemon.submit(job, *options)["id"]

    def submit_urgent(self, daemon):
        return self.submit(daemon, "--priority", "5", name="urgent.json",
                           training={"max_steps": 2})

    def check_undisturbed(self, daemon, job_id):
        self.assertEqual("SUCCEEDED", daemon.state(job_id))
        self.check_adapter(daemon, job_id)
        self.assertEqual(
            self.curve, curve(self.folder / f"state/jobs/{job_id}/out"))

    def notes(self, watch):
        return [e["note"] for e in watch.events if "note" in e]

    def test_higher_priority_takes_the_device(self):
        daemon = self.daemon(*AT_ONCE)
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            for step in (20, 90):
                watch.until(lambda e, least=step: e.get("progress", {}).get(
                    "step", 0) >= least)
                urgent = self.submit_urgent(daemon)
                queued = watch.until(
                    lambda e: e.get("state", {}).get("state") == "QUEUED")
                self.assertIn(f"gives way to job {urgent} of priority 5, "
                              "resumes by itself", queued["state"]["message"])
                self.assertEqual("SUCCEEDED",
                                 daemon.finish(urgent)["state"])
                with daemon.watch(urgent) as other:
                    other.finish()
                    self.assertTrue(any(f"takes the device from job {low}" in n
                                        for n in self.notes(other)))
            job = watch.finish()
            self.assertEqual(3, job["attempt"])
            steps = watch.steps()
            self.assertEqual(sorted(steps), steps, "no step is done twice")
        self.assertEqual(0, job.get("failures", 0))
        self.check_undisturbed(daemon, low)
        info, = daemon.ctl_json("info")
        self.assertEqual(0, info.get("queued_jobs", 0))

    def test_queue_tells_who_is_next_and_why(self):
        daemon = self.daemon()
        first = self.submit(daemon)
        with daemon.watch(first) as watch:
            watch.until_checkpoint(50)
            self.pause(daemon)
        second, urgent = self.submit(daemon), self.submit_urgent(daemon)
        queue, = daemon.ctl_json("queue")
        self.assertEqual([first, urgent, second],
                         [e["id"] for e in queue["entries"]])
        self.assertEqual(["RUNNING", "QUEUED", "QUEUED"],
                         [e["state"] for e in queue["entries"]])
        self.assertEqual(86400, queue["half_life_seconds"])
        usage, = queue["usage"]
        owner = daemon.show(first)["owner"]
        self.assertEqual(owner, usage["owner"])
        self.assertGreater(usage["seconds"], 0)
        self.assertGreater(daemon.show(first)["device_seconds"], 0)
        table = daemon.says("queue")
        self.assertIn(f"priority 5, {owner} has used the device", table)
        self.assertIn("halves every 1d00h", table)

    def test_killed_while_it_gives_way(self):
        daemon = self.daemon(*AT_ONCE)
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            watch.until_checkpoint(50)
            worker = self.pause(daemon)
            urgent = self.submit_urgent(daemon)
            watch.until(lambda e: "gives way" in e.get("note", ""))
            daemon.kill()
            harness._signal(worker, signal.SIGKILL)
            daemon.start()
            with daemon.watch(urgent) as other:
                self.assertEqual("SUCCEEDED", other.finish()["state"])
            watch.finish()
        self.check_undisturbed(daemon, low)

    def test_worker_that_does_not_answer(self):
        daemon = self.daemon(*AT_ONCE, "--stop-grace-seconds", "0.5")
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            watch.until_checkpoint(50)
            self.pause(daemon)
            urgent = self.submit_urgent(daemon)
            queued = watch.until(
                lambda e: e.get("state", {}).get("state") == "QUEUED")
            self.assertIn("no checkpoint within the grace period",
                          queued["state"]["message"])
            self.assertEqual("SUCCEEDED", daemon.finish(urgent)["state"])
            watch.finish()
        self.check_undisturbed(daemon, low)

    def test_time_of_a_job(self):
        config = self.folder / "mpsd.toml"
        config.write_text("limit-job-hours = 1\n")
        daemon = self.daemon("--config", str(config))
        begin = time.monotonic()
        job_id = self.submit(daemon)
        with daemon.watch(job_id) as watch:
            watch.until(lambda e: "progress" in e)
        self.assertEqual(0, daemon.terminate())
        # Enough for its first step after a start on a busy machine.
        limit = time.monotonic() - begin + 10
        config.write_text(f"limit-job-hours = {limit / 3600}\n")
        daemon.start()
        with daemon.watch(job_id) as watch:
            for _ in range(2):
                watch.until(
                    lambda e: e.get("state", {}).get("state") == "RUNNING")
            # A worker that has not begun has nothing to save and is killed at
            # its time; one that has must not end before it.
            watch.until(lambda e: "progress" in e)
            worker = self.pause(daemon)
            watch.until(lambda e: "as long as it may" in e.get("note", ""))
            os.kill(worker, signal.SIGCONT)
            ended = watch.finish()
        self.assertEqual("FAILED", ended["state"])
        self.assertEqual("TimeLimit", ended["exit_reason"])
        self.assertIn("job-hours", ended["message"])
        self.assertLess(ended["progress"]["step"], STEPS)
        self.assertGreaterEqual(ended["device_seconds"], limit - 0.001)
        refused = daemon.ctl("retry", job_id)
        self.assertNotEqual(0, refused.returncode)
        self.assertIn("job-hours", refused.stderr)

        config.write_text("limit-job-hours = 1\n")
        self.assertEqual(0, daemon.terminate())
        daemon.start()
        daemon.says("retry", job_id)
        self.assertEqual(3, daemon.finish(job_id)["attempt"])
        self.check_undisturbed(daemon, job_id)
