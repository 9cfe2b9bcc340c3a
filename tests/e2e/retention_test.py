# SPDX-License-Identifier: Apache-2.0
"""What retention removes, what it never does, and what a kill in the middle of
it leaves: the real programs."""

import contextlib
import random
import sqlite3
import time

import harness

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

    def jobs_dir(self, daemon):
        return {entry.name for entry in (daemon.state_dir / "jobs").iterdir()}

    def aged(self, daemon, **days):
        """Starts the daemon again with jobs that ended so many days ago."""
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
        plan, = daemon.ctl_json("gc", "--dry-run")
        return plan

    def test_what_goes_is_told_first_and_pins_and_users_keep_the_rest(self):
        daemon = self.daemon("--keep-days", "30", worker="fake_worker")
        old, pinned, needed, young, fresh = (
            self.finished(daemon, name)
            for name in ("old", "pinned", "needed", "young", "fresh"))
        daemon.says("pin", pinned)
        # One that hangs, so that the next stays in the queue.
        hangs = daemon.submit(harness.write_job(
            self.folder, called="fake:hang"))["id"]
        waits = daemon.submit(harness.write_job(self.folder), "--after",
                              needed)["id"]
        self.aged(daemon, **{old: 40, pinned: 40, needed: 40, young: 20})
        plan = self.plan(daemon)
        self.assertEqual([old], [item["id"] for item in plan["items"]])
        self.assertIn("keep-days is 30", plan["items"][0]["why"])
        self.assertIn(old, self.jobs_dir(daemon))
        self.assertIn("mpsctl unpin", daemon.says("delete", pinned, code=2))
        collected, = daemon.ctl_json("gc")
        self.assertEqual(1, collected["removed"])
        self.assertEqual({pinned, needed, young, fresh, hangs, waits},
                         self.jobs_dir(daemon))
        # Once nothing keeps them they go as well.
        daemon.says("unpin", pinned)
        for job_id in (waits, hangs):
            daemon.ctl("cancel", job_id, "--now")
            daemon.finish(job_id)
        collected, = daemon.ctl_json("gc")
        self.assertEqual(2, collected["removed"])
        self.assertEqual({young, fresh, hangs, waits}, self.jobs_dir(daemon))

    def test_checkpoints_go_and_the_result_can_be_fetched(self):
        daemon = self.daemon("--keep-checkpoints-days", "7",
                             worker="fake_worker")
        job_id = self.finished(daemon, checkpoint_bytes=3 << 20)
        self.aged(daemon, **{job_id: 9})

        def is_planned():
            return [(item["kind"], item["id"])
                    for item in self.plan(daemon)["items"]] == [
                        ("CHECKPOINTS", job_id)]
        self.eventually(is_planned)  # once it is measured
        collected, = daemon.ctl_json("gc")
        self.assertEqual(1, collected["removed"])
        self.assertGreaterEqual(collected["freed_bytes"], 3 << 20)
        self.assertFalse((self.out(daemon, job_id) / "checkpoints").exists())
        self.assertEqual([], daemon.ctl_json("checkpoints", job_id))
        fetched = self.folder / "fetched"
        daemon.says("download", job_id, "-o", fetched)

    def test_killed_in_the_middle_each_job_is_whole_or_gone(self):
        daemon = self.daemon("--keep-days", "30", worker="fake_worker")
        ids = [self.finished(daemon) for _ in range(10)]
        for job_id in ids:  # so that removing takes its time
            folder = self.out(daemon, job_id) / "many"
            folder.mkdir()
            for i in range(1000):
                (folder / str(i)).touch()
        kept = ids[3]
        daemon.says("pin", kept)
        self.aged(daemon, **{job_id: 40 for job_id in ids})
        rows = set(ids)
        for _ in range(8):
            collect = daemon.begin("gc")
            time.sleep(random.uniform(0.02, 0.15))
            daemon.kill()
            collect.wait(harness.TIMEOUT)
            daemon.start()
            rows = {j["id"] for j in daemon.ctl_json("list", "--limit", "50")}
            self.eventually(lambda: self.jobs_dir(daemon) == rows)
            for job_id in rows:
                many = self.out(daemon, job_id) / "many"
                self.assertEqual(1000, len(list(many.iterdir())))
        self.assertIn(kept, rows)
        daemon.ctl_json("gc")
        self.assertEqual({kept}, self.jobs_dir(daemon))

    def test_many_go_by_a_filter(self):
        daemon = self.daemon(worker="fake_worker")
        ids = [self.finished(daemon, name) for name in ("a", "b", "c")]
        self.aged(daemon, **{ids[0]: 40, ids[1]: 40})
        told, = daemon.ctl_json("delete", "--older-than", "30d", "--dry-run")
        self.assertEqual(2, told["matched"])
        self.assertEqual(set(ids), self.jobs_dir(daemon))
        gone, = daemon.ctl_json("delete", "--older-than", "30d", "--yes")
        self.assertEqual(sorted(ids[:2]), sorted(gone["deleted"]))
        self.assertEqual({ids[2]}, self.jobs_dir(daemon))
        # What became of each is in the audit.
        audited = daemon.ctl_json("audit")
        self.assertEqual(2, sum(entry["method"] == "JobService.Delete"
                                for entry in audited))

    def test_the_budget_is_kept_by_itself(self):
        daemon = self.daemon(worker="fake_worker")
        first = self.finished(daemon, checkpoint_bytes=16 << 20)
        second = self.finished(daemon, checkpoint_bytes=16 << 20)
        self.aged(daemon, **{first: 2, second: 1})

        def used():
            info, = daemon.ctl_json("info")
            return info["state_bytes"]
        self.eventually(lambda: used() > 32 << 20)  # once it is measured
        budget = used() - (8 << 20)
        daemon.kill()
        daemon = self.daemon("--state-budget-bytes", str(budget),
                             worker="fake_worker")
        # The older one's checkpoints suffice.
        self.eventually(lambda: not (
            self.out(daemon, first) / "checkpoints").exists())
        self.eventually(lambda: used() <= budget)
        self.eventually(lambda: self.jobs_dir(daemon) == {first, second})
        self.assertTrue((self.out(daemon, second) / "checkpoints").exists())
        plan = self.plan(daemon)
        self.assertEqual([], plan["items"])
        self.assertEqual(budget, plan["budget_bytes"])
