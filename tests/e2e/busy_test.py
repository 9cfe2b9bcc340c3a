# SPDX-License-Identifier: Apache-2.0
"""The API while much is asked of it, on a drive that takes 5 ms for every
flush: who asks how a job does never waits for who submits."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

import harness
import training_test

SLOW_SYNC = harness.BIN / "libslow_sync.so"
SUBMITS, IMAGES = 8, 2000
ROUNDS = 10
P99_MS = 50


@unittest.skipIf(sys.platform == "darwin", "LD_PRELOAD slows the drive")
class BusyTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.flush_log = self.folder / "flushes"
        vit = self.folder / "vit"
        training_test.write_vit(vit)
        self.images = self.folder / "images.json"
        self.images.write_text(json.dumps({
            "model": str(vit), "task": "IMAGE_CLS", "device": "cpu",
            "fine_tune_type": "full", "from_scratch": True,
            "dataset": {"train": ["images"]},
            "training": {"max_steps": 1}}))

    def busy_daemon(self):
        """On the slow drive, the device taken by a job that does not end."""
        daemon = self.daemon(
            "--stop-grace-seconds", "0.3", worker="fake_worker",
            env={"LD_PRELOAD": str(SLOW_SYNC), "SLOW_SYNC_MS": "5",
                 "SLOW_SYNC_LOG": str(self.flush_log)})
        return daemon, daemon.submit(harness.write_job(
            self.folder, name="deaf.json", called="fake:slow-exit"))["id"]

    def flushes(self):
        """"<call> <path>" of each so far."""
        return self.flush_log.read_text().splitlines()

    def load(self, daemon, job_id, submits, seconds):
        run = subprocess.run(
            [harness.BIN / "api_load", "--address",
             f"unix:{daemon.state_dir}/mpsd.sock", "--get", job_id,
             "--job", self.images, "--submits", str(submits),
             "--images", str(IMAGES), "--seconds", str(seconds)],
            capture_output=True, text=True, timeout=harness.TIMEOUT * 3,
            check=False)
        self.assertEqual(0, run.returncode, run.stderr + daemon.said())
        return json.loads(run.stdout)

    def test_reads_are_quick_while_others_submit(self):
        """The best of ten rounds: what else runs on the machine slows a
        round, and only mpsd itself could slow each."""
        daemon, job_id = self.busy_daemon()
        rounds = []
        for _ in range(ROUNDS):
            rounds.append(self.load(daemon, job_id, SUBMITS, 3))
            print(json.dumps(rounds[-1]), file=sys.stderr)
            if max(rounds[-1][c]["p99_ms"] for c in ("get", "info")) <= P99_MS:
                break
        for call in ("get", "info"):
            best = min(r[call]["p99_ms"] for r in rounds)
            self.assertLessEqual(best, P99_MS, f"{call}: {rounds}")
            self.assertGreater(rounds[-1][call]["calls"], 100, rounds)

    def test_a_submit_flushes_no_blob_again(self):
        daemon, job_id = self.busy_daemon()
        self.load(daemon, job_id, 1, 0)  # the blobs are there from now on
        before = len(self.flushes())
        load = self.load(daemon, job_id, 1, 0)
        flushes = len(self.flushes()) - before
        print(f"{flushes} flushes of a submit of {IMAGES} files",
              file=sys.stderr)
        self.assertEqual(1, load["submits"])
        self.assertGreaterEqual(flushes, 3)  # job.json, folders, the row
        # And what mpsd writes by itself meanwhile.
        self.assertLessEqual(flushes, 50)

    def test_what_is_answered_is_flushed(self):
        """Each in its turn: what a power cut leaves is the job or nothing."""
        daemon, _ = self.busy_daemon()
        before = len(self.flushes())
        rows = [harness.row("Sun?", "yellow")]
        job = daemon.submit(harness.write_job(self.folder, rows=rows))
        state = f"{daemon.state_dir}/"
        flushes = [line.split(" ", 1)[1].removeprefix(state)
                   for line in self.flushes()[before:]]
        train = hashlib.sha256(
            (self.folder / "train.jsonl").read_bytes()).hexdigest()
        staging = rf"jobs/\.{job['id']}\.[\d.]+\.tmp"
        at = -1
        for path in (rf"blobs/incoming/{train}\.b?\d+",
                     f"blobs/{train[:2]}", r"mpsd\.db-wal",
                     f"{staging}/job\\.json", f"{staging}/inputs", "jobs",
                     r"mpsd\.db-wal"):
            found = [i for i, flushed in enumerate(flushes)
                     if i > at and re.fullmatch(path, flushed)]
            self.assertTrue(found, f"{path} after {at} of {flushes}")
            at = found[0]
        self.assertTrue(any(re.fullmatch(staging, f) for f in flushes))

    def test_stopping_waits_for_no_disk(self):
        hang = self.folder / "hang"
        daemon = self.daemon(worker="fake_worker", env={
            "LD_PRELOAD": str(SLOW_SYNC), "SLOW_SYNC_HANG": str(hang)})
        # The database flushes its log's beginning, here and not at the upload.
        daemon.says("admin", "token", "create", "--user", "ann", "--role", "user")
        hang.touch()
        self.addCleanup(hang.unlink, missing_ok=True)
        with daemon.begin("submit", "--detach",
                          harness.write_job(self.folder)) as submit:
            self.addCleanup(submit.kill)
            incoming = pathlib.Path(daemon.state_dir, "blobs/incoming")
            while not list(incoming.iterdir()):  # it is being flushed then
                self.assertIsNone(submit.poll(), daemon.said())
            begin = time.monotonic()
            self.assertEqual(0, daemon.terminate(), daemon.said())
            self.assertLess(time.monotonic() - begin, 30)
            submit.kill()
        hang.unlink()
        daemon.start()
        self.assertEqual([], daemon.ctl_json("list"))
        self.assertEqual([], list(incoming.iterdir()))

    def test_stopping_waits_for_no_submit(self):
        daemon, job_id = self.busy_daemon()
        with subprocess.Popen(
                [harness.BIN / "api_load", "--address",
                 f"unix:{daemon.state_dir}/mpsd.sock", "--get", job_id,
                 "--job", self.images, "--submits", "30", "--images", "50000",
                 "--seconds", "60"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
            jobs = pathlib.Path(daemon.state_dir) / "jobs"
            while len(list(jobs.glob(".*.tmp"))) < 2:  # two are being made
                self.assertIsNone(load.poll(), daemon.said())
            self.assertEqual(0, daemon.terminate(), daemon.said())
            load.wait(harness.TIMEOUT)
        self.assertEqual([], list(jobs.glob(".*.tmp")))
