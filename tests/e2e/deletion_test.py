# SPDX-License-Identifier: Apache-2.0
"""Jobs that are deleted, what is swept at start and which blobs go: the real
programs, killed in the middle of it."""

import json
import os
import random
import shutil
import time

import harness


class DeletionTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def finished(self, daemon, *options):
        return daemon.succeed(harness.write_job(self.folder), *options)["id"]

    def jobs_dir(self, daemon):
        return {entry.name for entry in (daemon.state_dir / "jobs").iterdir()}

    def test_nothing_of_a_deleted_job_is_left(self):
        other = self.finished(self.mpsd)
        job_id = self.finished(self.mpsd, "--idempotency-key", "once")
        self.assertIn(f"Job {job_id} is deleted",
                      self.mpsd.says("delete", job_id))
        listed = {job["id"] for job in self.mpsd.ctl_json("list", "--all")}
        for left in (self.jobs_dir(self.mpsd), listed):
            self.assertIn(other, left)
            self.assertNotIn(job_id, left)
        self.assertTrue(self.mpsd.show(job_id)["past"])
        for verb in ("watch", "logs", "checkpoints", "delete"):
            self.mpsd.says(verb, job_id, code=4)
        self.assertNotIn(job_id, self.mpsd.metrics())
        again = self.finished(self.mpsd, "--idempotency-key", "once")
        self.assertNotEqual(job_id, again)

    def test_a_job_that_has_not_ended_is_kept(self):
        job = harness.write_job(self.folder, called="fake:hang")
        running = self.mpsd.submit(job)["id"]
        queued = self.mpsd.submit(job)["id"]
        self.eventually(lambda: self.mpsd.state(running) == "RUNNING")
        for job_id in (running, queued):
            said = self.mpsd.says("delete", job_id, code=2)
            self.assertIn(f"mpsctl cancel {job_id}", said)
        self.assertLessEqual({running, queued}, self.jobs_dir(self.mpsd))
        self.mpsd.says("cancel", "--now", queued, running)
        self.mpsd.finish(running)

    def test_of_two_deletions_one_finds_the_job(self):
        for _ in range(5):
            job_id = self.finished(self.mpsd)
            codes = harness.at_once(
                lambda verb: self.mpsd.ctl(verb, job_id).returncode,
                ["delete"] * 3)
            self.assertEqual([0, 4, 4], sorted(codes))
            self.assertNotIn(job_id, self.jobs_dir(self.mpsd))

    def test_killed_in_the_middle_a_job_is_whole_or_gone(self):
        daemon = self.mpsd
        ids = [self.finished(daemon) for _ in range(12)]
        for job_id in ids:  # so that removing takes its time
            folder = daemon.state_dir / "jobs" / job_id / "out" / "many"
            folder.mkdir(parents=True)
            for i in range(1000):
                (folder / str(i)).touch()
        for job_id in ids:
            delete = daemon.begin("delete", job_id)
            time.sleep(random.uniform(0, 0.06))
            daemon.kill()
            delete.wait(harness.TIMEOUT)
            daemon.start()
            rows = {j["id"] for j in daemon.ctl_json("list", "--limit", "50")}
            self.eventually(lambda: self.jobs_dir(daemon) == rows)
            for kept in rows & set(ids):
                many = daemon.state_dir / "jobs" / kept / "out" / "many"
                self.assertEqual(1000, len(list(many.iterdir())))

    def test_leftovers_are_swept_at_start(self):
        before = self.jobs_dir(self.mpsd)
        self.mpsd.kill()
        jobs = self.mpsd.state_dir / "jobs"
        staged = jobs / f".{'0' * 26}.77.1.tmp" / "inputs"
        staged.mkdir(parents=True)
        (staged / "train.jsonl").write_text("x")
        cut_off = jobs / ("0" * 25 + "1")
        cut_off.mkdir()
        (cut_off / "job.json").write_text("{}")
        os.utime(cut_off, (1e9, 1e9))
        unknown = jobs / ("0" * 25 + "2")
        (unknown / "out").mkdir(parents=True)
        broken = self.mpsd.state_dir / "blobs" / "incoming" / "broken"
        broken.write_text("x")
        self.mpsd.start()
        self.eventually(
            lambda: self.jobs_dir(self.mpsd) == before | {unknown.name})
        self.eventually(lambda: not broken.exists())
        self.mpsd.await_said(unknown.name)
        shutil.rmtree(unknown)

    def test_blobs_that_no_job_uses_go_after_their_grace(self):
        daemon = self.daemon("--blob-grace-seconds", "1", worker="fake_worker")
        blobs = daemon.state_dir / "blobs"

        def held():
            return [p for p in blobs.glob("??/*") if p.is_file()]

        job_id = self.finished(daemon)
        used = sorted(held())
        self.assertTrue(used)
        time.sleep(2.5)
        self.assertEqual(used, sorted(held()), "a job's blob is gone")
        daemon.says("delete", job_id)
        self.eventually(lambda: not held())
        # And it can come again.
        self.finished(daemon)
        self.assertEqual(used, sorted(held()))

    def test_submissions_and_deletions_at_once(self):
        """All of one blob, which comes and goes under them."""
        daemon = self.daemon("--blob-grace-seconds", "1", worker="fake_worker")
        job = harness.write_job(self.folder)
        failures = []

        def submit_and_delete():
            for i in range(4):
                submitted = daemon.ctl("--json", "submit", str(job), "--detach")
                if submitted.returncode != 0:
                    return failures.append(submitted.stderr)
                job_id = json.loads(submitted.stdout)["id"]
                ended = daemon.ctl("watch", job_id)
                deleted = daemon.ctl("delete", job_id)
                if ended.returncode != 0 or deleted.returncode != 0:
                    return failures.append(ended.stderr + deleted.stderr)
                time.sleep(0.8 * (i % 2))
            return None

        harness.at_once(lambda _: submit_and_delete(), range(6))
        self.assertEqual([], failures)
        self.assertEqual(set(), self.jobs_dir(daemon))
        self.assertEqual([], daemon.ctl_json("list"))

    def test_a_download_of_a_deleted_job_leaves_nothing(self):
        job_id = self.finished(self.mpsd)
        adapter = self.mpsd.state_dir / "jobs" / job_id / "out" / "adapter"
        for i in range(40):
            with open(adapter / f"part{i}", "wb") as part:
                part.write(os.urandom(1 << 20))
        output = self.folder / "fetched"
        download = self.mpsd.begin("download", job_id, "-o", output)
        self.eventually(lambda: list(self.folder.glob("*fetched*")))
        self.mpsd.says("delete", job_id)
        _, error = download.communicate(timeout=harness.TIMEOUT)
        if download.returncode == 0:  # it was the faster one
            self.assertEqual(40, len(list(output.glob("part*"))))
        else:
            self.assertIn(download.returncode, (4, 6), error)
            self.assertEqual([], list(self.folder.glob("*fetched*")))
        self.assertNotIn(job_id, self.jobs_dir(self.mpsd))

    def test_uploads_leave_room(self):
        daemon = self.daemon("--min-free-bytes", str(1 << 60),
                             worker="fake_worker")
        said = daemon.says("submit", str(harness.write_job(self.folder)),
                           "--detach", code=6)
        self.assertIn("--min-free-bytes", said)
        self.assertIn("mpsctl delete", said)
