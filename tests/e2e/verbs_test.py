# SPDX-License-Identifier: Apache-2.0
"""A drained queue and jobs that are tried again, by the real programs, killed in
the middle of it."""

import os
import random
import time

import harness

LONG = {"max_steps": 600, "save_steps": 50}


class VerbsTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def fake(self, daemon, mode, *options, **training):
        """Submits a job of the fake worker."""
        return daemon.submit(harness.write_job(
            self.folder, called=f"fake:{mode}", training=training),
                             *options)["id"]

    def until_running(self, daemon, job_id):
        self.eventually(lambda: daemon.state(job_id) == "RUNNING")

    def entries(self, folder):
        try:
            return len(os.listdir(folder))
        except FileNotFoundError:
            return 0

    def test_a_drained_daemon_starts_nothing_after_a_restart_either(self):
        running = self.fake(self.mpsd, "ok-slow", max_steps=300)
        self.until_running(self.mpsd, running)
        self.mpsd.says("admin", "drain")
        waiting = self.fake(self.mpsd, "ok")
        self.mpsd.says("wait", running)
        self.mpsd.restart()
        time.sleep(0.3)
        self.assertEqual("QUEUED", self.mpsd.state(waiting))
        info, = self.mpsd.ctl_json("info")
        self.assertTrue(info["drained"])
        self.eventually(lambda: self.mpsd.ctl_json("info")[0]["hold_reason"]
                        == "drained")
        self.eventually(
            lambda: self.mpsd.metric('mpsd_held{reason="drained"}') == 1)
        self.mpsd.says("wait", waiting, "--timeout", "2", code=7)
        self.mpsd.says("admin", "undrain")
        self.mpsd.says("wait", waiting)
        audit = self.mpsd.says("admin", "audit")
        self.assertIn("Drain", audit)
        self.assertIn("Undrain", audit)

    def test_the_time_of_a_job_has_a_limit(self):
        config = self.folder / "mpsd.toml"
        config.write_text("limit-job-hours = 0.0003\n")
        daemon = self.daemon("--config", str(config), worker="fake_worker")
        job = daemon.finish(self.fake(daemon, "ok-slow", max_steps=1_000_000))
        self.assertEqual(("FAILED", "TimeLimit"),
                         (job["state"], job["exit_reason"]))
        self.assertIn("job-hours", daemon.ctl("retry", job["id"]).stderr)

    def test_from_scratch_killed_in_the_middle(self):
        """No matter when mpsd is killed, the job either keeps what it had
        or runs from its first step."""
        kept = 0
        for attempt in range(8):
            job_id = self.fake(self.mpsd, "ok-slow", max_steps=6)
            self.mpsd.says("wait", job_id)
            folder = self.mpsd.state_dir / "jobs" / job_id / "out" / "many"
            folder.mkdir()
            for i in range(1000):
                (folder / str(i)).touch()
            retry = self.mpsd.begin("retry", "--from-scratch", job_id)
            if attempt % 2 == 0:
                time.sleep(random.uniform(0, 0.15))
            else:  # as the removal begins
                self.eventually(lambda: not (folder / "999").exists()
                                or self.entries(folder) < 1000)
            self.mpsd.kill()
            retry.wait(harness.TIMEOUT)
            self.mpsd.start()
            self.mpsd.says("wait", job_id)
            self.assertEqual("SUCCEEDED", self.mpsd.state(job_id))
            if self.mpsd.show(job_id)["attempt"] == 1:
                self.assertTrue(folder.exists(), "it did not run again")
                kept += 1
            else:
                self.assertFalse(folder.exists(), "an earlier run's files")
        self.assertLessEqual(kept, 4, "what began to go has to go")


class TrainingTest(harness.EndToEndTest):
    """With the real worker."""

    def test_retried_jobs_come_out_as_undisturbed_ones(self):
        daemon = self.daemon(*harness.slow_disk(20))
        job = harness.write_job(self.folder, training=LONG)
        calm = daemon.finish(daemon.submit(job)["id"])["id"]
        self.expected = (self.download(daemon, calm)
                         / "adapter_model.safetensors").read_bytes()
        job_id = daemon.submit(job)["id"]
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(50)
            daemon.says("retry", job_id)
            watch.until_state("QUEUED")
            watch.until_checkpoint(150)
            daemon.says("retry", "--from-scratch", job_id)
            watch.until_state("QUEUED")
            # Fast steps may share an event; checkpoints have their own.
            first = watch.until_checkpoint(0)
            self.assertEqual(50, first["checkpoint"]["step"], "from scratch")
            self.assertEqual("SUCCEEDED", watch.finish()["state"])
        self.assertEqual(3, daemon.show(job_id)["attempt"])
        self.check_adapter(daemon, job_id)
        listed = daemon.ctl_json("download", job_id, "--checkpoints")
        self.assertEqual(LONG["max_steps"], max(
            int(c["step"]) for c in listed))
