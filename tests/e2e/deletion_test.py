# SPDX-License-Identifier: Apache-2.0
"""Jobs that are deleted, what is swept at start and which blobs go: the real
programs, killed in the middle of it."""

import json
import os
import random
import subprocess
import threading
import time
import unittest
import urllib.request

import harness


class DeletionTest(harness.EndToEndTest):
    def finished(self, daemon, *options):
        job_id = daemon.submit(harness.write_job(self.folder), *options)["id"]
        self.assertEqual("SUCCEEDED", daemon.finish(job_id)["state"])
        return job_id

    def jobs_dir(self, daemon):
        return {entry.name for entry in (daemon.state_dir / "jobs").iterdir()}

    def eventually(self, holds):
        deadline = time.monotonic() + harness.TIMEOUT
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.02)

    def test_nothing_of_a_deleted_job_is_left(self):
        daemon = self.daemon(worker="fake_worker")
        other = self.finished(daemon)
        job_id = self.finished(daemon, "--idempotency-key", "once")
        result = daemon.ctl("delete", job_id)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn(f"Job {job_id} is deleted", result.stdout)
        self.assertEqual({other}, self.jobs_dir(daemon))
        self.assertEqual([other], [j["id"] for j in daemon.ctl_json("list")])
        self.assertTrue(daemon.show(job_id)["past"])
        for verb in ("watch", "logs", "checkpoints", "delete"):
            self.assertEqual(4, daemon.ctl(verb, job_id).returncode, verb)
        info, = daemon.ctl_json("info")
        url = f"http://{info['metrics_address']}/metrics"
        with urllib.request.urlopen(url, timeout=harness.TIMEOUT) as answer:
            self.assertNotIn(job_id, answer.read().decode())
        again = self.finished(daemon, "--idempotency-key", "once")
        self.assertNotEqual(job_id, again)

    def test_a_job_that_has_not_ended_is_kept(self):
        daemon = self.daemon(worker="fake_worker")
        job = harness.write_job(self.folder)
        job.write_text(job.read_text().replace('"tiny"', '"fake:hang"'))
        running = daemon.submit(job)["id"]
        queued = daemon.submit(job)["id"]
        self.eventually(lambda: daemon.show(running)["state"] == "RUNNING")
        for job_id in (running, queued):
            result = daemon.ctl("delete", job_id)
            self.assertEqual(2, result.returncode, result.stderr)
            self.assertIn(f"mpsctl cancel {job_id}", result.stderr)
        self.assertEqual({running, queued}, self.jobs_dir(daemon))

    def test_of_two_deletions_one_finds_the_job(self):
        daemon = self.daemon(worker="fake_worker")
        for _ in range(5):
            job_id = self.finished(daemon)
            codes = []
            threads = [threading.Thread(target=lambda: codes.append(
                daemon.ctl("delete", job_id).returncode)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual([0, 4, 4], sorted(codes))
        self.assertEqual(set(), self.jobs_dir(daemon))

    def test_killed_in_the_middle_a_job_is_whole_or_gone(self):
        daemon = self.daemon(worker="fake_worker")
        rounds = 12
        ids = [self.finished(daemon) for _ in range(rounds)]
        for job_id in ids:  # so that removing takes its time
            folder = daemon.state_dir / "jobs" / job_id / "out" / "many"
            folder.mkdir(parents=True)
            for i in range(1000):
                (folder / str(i)).touch()
        for job_id in ids:
            delete = subprocess.Popen(
                [str(harness.BIN / "mpsctl"), "--state-dir",
                 str(daemon.state_dir), "delete", job_id],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=harness.environment())
            time.sleep(random.uniform(0, 0.06))
            daemon.kill()
            delete.wait(harness.TIMEOUT)
            daemon.start()
            rows = {j["id"] for j in daemon.ctl_json("list", "--limit", "50")}
            self.eventually(lambda: self.jobs_dir(daemon) == rows)
            for kept in rows:
                many = daemon.state_dir / "jobs" / kept / "out" / "many"
                self.assertEqual(1000, len(list(many.iterdir())))

    def test_leftovers_are_swept_at_start(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon)
        daemon.kill()
        jobs = daemon.state_dir / "jobs"
        staged = jobs / f".{'0' * 26}.77.1.tmp" / "inputs"
        staged.mkdir(parents=True)
        (staged / "train.jsonl").write_text("x")
        cut_off = jobs / ("0" * 25 + "1")
        cut_off.mkdir()
        (cut_off / "job.json").write_text("{}")
        os.utime(cut_off, (1e9, 1e9))
        unknown = jobs / ("0" * 25 + "2")
        (unknown / "out").mkdir(parents=True)
        broken = daemon.state_dir / "blobs" / "incoming" / "broken"
        broken.write_text("x")
        daemon.start()
        self.eventually(
            lambda: self.jobs_dir(daemon) == {job_id, unknown.name})
        self.eventually(lambda: not broken.exists())
        daemon.await_said(unknown.name)

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
        self.assertEqual(0, daemon.ctl("delete", job_id).returncode)
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

        threads = [threading.Thread(target=submit_and_delete)
                   for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual(set(), self.jobs_dir(daemon))
        self.assertEqual([], daemon.ctl_json("list"))

    def test_a_key_of_a_deleted_job_is_free(self):
        daemon = self.daemon(worker="fake_worker")
        seen = set()
        for _ in range(5):
            job_id = self.finished(daemon, "--idempotency-key", "k")
            self.assertNotIn(job_id, seen)
            seen.add(job_id)
            self.assertEqual(0, daemon.ctl("delete", job_id).returncode)

    def test_a_download_of_a_deleted_job_leaves_nothing(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon)
        adapter = daemon.state_dir / "jobs" / job_id / "out" / "adapter"
        for i in range(40):
            with open(adapter / f"part{i}", "wb") as part:
                part.write(os.urandom(1 << 20))
        output = self.folder / "fetched"
        download = subprocess.Popen(
            [str(harness.BIN / "mpsctl"), "--state-dir", str(daemon.state_dir),
             "download", job_id, "-o", str(output)], stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL, text=True, env=harness.environment())
        self.eventually(lambda: list(self.folder.glob("*fetched*")))
        self.assertEqual(0, daemon.ctl("delete", job_id).returncode)
        _, error = download.communicate(timeout=harness.TIMEOUT)
        if download.returncode == 0:  # it was the faster one
            self.assertEqual(40, len(list(output.glob("part*"))))
        else:
            self.assertIn(download.returncode, (4, 6), error)
            self.assertEqual([], list(self.folder.glob("*fetched*")))
        self.assertEqual(set(), self.jobs_dir(daemon))

    def test_uploads_leave_room(self):
        daemon = self.daemon("--min-free-bytes", str(1 << 60),
                             worker="fake_worker")
        result = daemon.ctl("submit", str(harness.write_job(self.folder)),
                            "--detach")
        self.assertEqual(6, result.returncode, result.stderr)
        self.assertIn("--min-free-bytes", result.stderr)
        self.assertIn("mpsctl delete", result.stderr)


if __name__ == "__main__":
    unittest.main()
