# SPDX-License-Identifier: Apache-2.0
"""Jobs that are deleted or that retention removes, what is kept, and what a kill
in the middle of it leaves: the real programs."""

import contextlib
import json
import random
import sqlite3
import time

import harness


def jobs_dir(daemon):
    return {entry.name for entry in (daemon.state_dir / "jobs").iterdir()}


def many(daemon, job_id):
    return daemon.state_dir / "jobs" / job_id / "out" / "many"


def make_many(daemon, ids):
    """So many files in the jobs' results that removing them takes its time."""
    for folder in (many(daemon, job_id) for job_id in ids):
        folder.mkdir(parents=True)
        for i in range(1000):
            (folder / str(i)).touch()


class DeletionTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def finished(self, daemon, *options):
        return daemon.succeed(harness.write_job(self.folder), *options)["id"]

    def test_nothing_of_a_deleted_job_is_left(self):
        other = self.finished(self.mpsd)
        job_id = self.finished(self.mpsd, "--idempotency-key", "once")
        self.assertIn(f"Deleted job {job_id}",
                      self.mpsd.says("delete", job_id))
        listed = {job["id"] for job in self.mpsd.ctl_json("list", "--all")}
        for left in (jobs_dir(self.mpsd), listed):
            self.assertIn(other, left)
            self.assertNotIn(job_id, left)
        self.assertTrue(self.mpsd.show(job_id)["past"])
        for verb in (["watch"], ["logs"], ["download", "--checkpoints"],
                     ["delete"]):
            self.mpsd.says(*verb, job_id, code=4)
        self.assertNotIn(job_id, self.mpsd.metrics())
        again = self.finished(self.mpsd, "--idempotency-key", "once")
        self.assertNotEqual(job_id, again)

    def test_killed_in_the_middle_a_job_is_whole_or_gone(self):
        daemon = self.mpsd
        ids = [self.finished(daemon) for _ in range(12)]
        make_many(daemon, ids)
        for job_id in ids:
            delete = daemon.begin("delete", job_id)
            time.sleep(random.uniform(0, 0.06))
            daemon.kill()
            delete.wait(harness.TIMEOUT)
            daemon.start()
            rows = {j["id"] for j in daemon.ctl_json("list", "--limit", "50")}
            self.eventually(lambda: jobs_dir(daemon) == rows)
            for kept in rows & set(ids):
                self.assertEqual(1000, len(list(many(daemon, kept).iterdir())))

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
        self.assertEqual(set(), jobs_dir(daemon))
        self.assertEqual([], daemon.ctl_json("list"))

DAY_US = 24 * 3600 * 10**6


class RetentionTest(harness.EndToEndTest):
    def finished(self, daemon, name="job", checkpoint_bytes=0):
        job_id = daemon.succeed(harness.write_job(
            self.folder, called=name))["id"]
        if checkpoint_bytes:
            step = self.out(daemon, job_id) / "checkpoints" / "step-9"
            step.mkdir(parents=True, exist_ok=True)
            (step / "state").write_bytes(b"s" * checkpoint_bytes)
        return job_id

    def out(self, daemon, job_id):
        return daemon.state_dir / "jobs" / job_id / "out"

    def aged(self, daemon, **days):
        """Starts the daemon again with jobs that ended this many days ago."""
        daemon.kill()
        with contextlib.closing(
                sqlite3.connect(daemon.state_dir / "mpsd.db")) as database:
            for job_id, count in days.items():
                database.execute(
                    "UPDATE jobs SET end_time_us = end_time_us - ? "
                    "WHERE id = ?", (int(count * DAY_US), job_id))
            database.commit()
        daemon.start()

    def plan(self, daemon):
        plan, = daemon.ctl_json("admin", "gc", "--dry-run")
        return plan

    def test_what_goes_is_shown_first_and_pins_and_users_keep_the_rest(self):
        daemon = self.daemon("--keep-days", "30", worker="fake_worker")
        old, pinned, needed, young, fresh = (
            self.finished(daemon, name)
            for name in ("old", "pinned", "needed", "young", "fresh"))
        daemon.says("set", pinned, "--pin")
        # One that hangs, so that the next stays in the queue.
        hangs = daemon.submit(harness.write_job(
            self.folder, called="fake:hang"))["id"]
        waits = daemon.submit(harness.write_job(self.folder), "--after",
                              needed)["id"]
        self.aged(daemon, **{old: 40, pinned: 40, needed: 40, young: 20})
        plan = self.plan(daemon)
        self.assertEqual([old], [item["id"] for item in plan["items"]])
        self.assertIn("keep-days is 30", plan["items"][0]["why"])
        self.assertIn(old, jobs_dir(daemon))
        self.assertIn("--unpin", daemon.says("delete", pinned, code=2))
        collected, = daemon.ctl_json("admin", "gc")
        self.assertEqual(1, collected["removed"])
        self.assertEqual({pinned, needed, young, fresh, hangs, waits},
                         jobs_dir(daemon))
        # Once nothing keeps them they go as well.
        daemon.says("set", pinned, "--unpin")
        for job_id in (waits, hangs):
            daemon.ctl("cancel", job_id, "--now")
            daemon.finish(job_id)
        collected, = daemon.ctl_json("admin", "gc")
        self.assertEqual(2, collected["removed"])
        self.assertEqual({young, fresh, hangs, waits}, jobs_dir(daemon))

    def test_killed_in_the_middle_each_job_is_whole_or_gone(self):
        daemon = self.daemon("--keep-days", "30", worker="fake_worker")
        ids = [self.finished(daemon) for _ in range(10)]
        make_many(daemon, ids)
        kept = ids[3]
        daemon.says("set", kept, "--pin")
        self.aged(daemon, **{job_id: 40 for job_id in ids})
        rows = set(ids)
        for _ in range(8):
            collect = daemon.begin("admin", "gc")
            time.sleep(random.uniform(0.02, 0.15))
            daemon.kill()
            collect.wait(harness.TIMEOUT)
            daemon.start()
            rows = {j["id"] for j in daemon.ctl_json("list", "--limit", "50")}
            self.eventually(lambda: jobs_dir(daemon) == rows)
            for job_id in rows:
                self.assertEqual(
                    1000, len(list(many(daemon, job_id).iterdir())))
        self.assertIn(kept, rows)
        daemon.ctl_json("admin", "gc")
        self.assertEqual({kept}, jobs_dir(daemon))
