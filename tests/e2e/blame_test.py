# SPDX-License-Identifier: Apache-2.0
"""Whose fault it was: a machine that goes down with a job again and again, a
database that cannot be written, a disk that hangs. On a disk that is full to its
last byte each verb says so and changes nothing, what only reads still works, and
what makes room is done."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

import harness

LIMITS = ("--stop-grace-seconds", "0.3", "--retry-backoff-max-seconds", "0.2")
UNSTORED = 74  # mpsd's exit status: the queue is not written


class BlameTest(harness.EndToEndTest):
    def start(self, *options):
        return self.daemon(*LIMITS, *options, worker="fake_worker")

    def submit(self, daemon, mode, steps=5, **changes):
        return daemon.submit(harness.write_job(
            self.folder, called=f"fake:{mode}", training={"max_steps": steps},
            **changes))["id"]

    def until(self, condition, daemon):
        return self.eventually(condition, daemon.said)

    def go_down(self, daemon, job_id):
        """kill -9 of mpsd and the worker that runs the job."""
        workers = self.until(lambda: daemon.state(job_id) == "RUNNING"
                             and daemon.workers(), daemon)
        daemon.kill()
        for worker in workers:  # it may have ended with mpsd
            harness._signal(worker, signal.SIGKILL)

    def test_a_job_that_takes_the_machine_down_is_given_up(self):
        daemon = self.start()
        job_id = self.submit(daemon, "slow-exit")
        for count in range(1, 6):
            self.go_down(daemon, job_id)
            daemon.start()
            job = daemon.show(job_id)
            self.assertEqual(count, job["interruptions"], job["message"])
            self.assertEqual(0, job["failures"])
        self.assertEqual("FAILED", job["state"])
        self.assertEqual("Interrupted", job["exit_reason"])
        self.assertIn("5 interruptions in a row", job["message"])
        said = daemon.ctl("logs", job_id).stdout
        self.assertEqual(5, said.count("mpsd ended while the job ran"), said)
        self.assertEqual("SUCCEEDED",
                         daemon.finish(self.submit(daemon, "ok"))["state"])
        # And a user may retry it anyway.
        daemon.says("retry", job_id)
        self.go_down(daemon, job_id)
        daemon.start()
        self.assertEqual(1, daemon.show(job_id)["interruptions"])
        daemon.says("cancel", "--now", job_id)
        self.assertEqual("CANCELLED", daemon.finish(job_id)["state"])

    def test_a_database_that_cannot_be_written(self):
        daemon = self.start()
        job_id = self.submit(daemon, "slow-exit")
        queued = self.submit(daemon, "ok")
        self.until(lambda: daemon.workers(), daemon)
        database = sqlite3.connect(self.folder / "state" / "mpsd.db",
                                   timeout=harness.TIMEOUT)
        self.addCleanup(database.close)
        database.execute("BEGIN IMMEDIATE")
        cancelled = daemon.ctl("cancel", job_id)
        self.assertNotEqual(0, cancelled.returncode)
        self.assertIn("cannot be stored", cancelled.stderr)
        # The worker was asked; its end is not stored.
        self.until(lambda: not daemon.workers(), daemon)
        self.until(lambda: daemon.ctl_json("info")[0]["hold_reason"]
                   == "storage", daemon)
        self.until(lambda: "cannot be written" in daemon.show(job_id)["hold"],
                   daemon)
        self.assertEqual("RUNNING", daemon.state(job_id))
        self.assertIn("cannot be written", daemon.show(queued)["hold"])
        # SIGTERM ends mpsd though the row cannot be written.
        begin = time.monotonic()
        self.assertEqual(UNSTORED, daemon.terminate(), daemon.said())
        self.assertLess(time.monotonic() - begin, 45)
        database.rollback()
        daemon.start()
        daemon.says("cancel", "--now", job_id)  # it may have the device again
        self.assertEqual("SUCCEEDED", daemon.finish(queued)["state"])
        self.assertEqual("", daemon.ctl_json("info")[0]["hold"])

    @unittest.skipIf(sys.platform == "darwin", "LD_PRELOAD hangs the disk")
    def test_a_disk_that_hangs(self):
        hang = self.folder / "hang"
        daemon = self.daemon(*LIMITS, worker="fake_worker", env={
            "LD_PRELOAD": str(harness.BIN / "libslow_sync.so"),
            "SLOW_SYNC_HANG": str(hang)})
        job_id = self.submit(daemon, "slow-exit")
        queued = self.submit(daemon, "ok")
        self.until(lambda: daemon.workers(), daemon)
        # The queue is counted a moment after the worker is there.
        self.until(lambda: daemon.ctl_json("info")[0]["queued_jobs"] == 1,
                   daemon)
        hang.touch()
        self.addCleanup(hang.unlink, missing_ok=True)
        cancels = [threading.Thread(target=daemon.ctl, args=("cancel", job_id))
                   for _ in range(8)]
        for cancel in cancels:
            cancel.start()
            self.addCleanup(cancel.join)
        # What is only looked up is answered as ever.
        for _ in range(3):
            begin = time.monotonic()
            self.assertEqual(1, daemon.ctl_json("info")[0]["queued_jobs"])
            self.assertEqual("RUNNING", daemon.state(job_id))
            self.assertEqual(2, len(daemon.ctl_json("list")))
            self.assertLess(time.monotonic() - begin, 30)
        begin = time.monotonic()
        self.assertEqual(UNSTORED, daemon.terminate(), daemon.said())
        self.assertLess(time.monotonic() - begin, 45)
        hang.unlink()
        daemon.start()
        self.assertEqual("SUCCEEDED", daemon.finish(queued)["state"])


FULL = "disk is full|there is no room for"


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount")
                     and os.path.isdir("/proc/self"),
                     "wants root, to mount a small disk")
class FullDiskTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.state.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs",
             str(self.state)], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no disk can be mounted here: " + mounted.stderr)
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.state)],
                        check=False)
        self.served = self.daemon("--min-free-bytes", "0", "--keep-jobs", "1",
                                  "--stop-grace-seconds", "0.3",
                                  "--model-root", str(self.folder),
                                  worker="fake_worker")

    def submit(self, mode):
        return self.served.submit(harness.write_job(
            self.folder, called=f"fake:{mode}",
            training={"max_steps": 3}))["id"]

    def fill(self):
        for size in (65536, 512):
            try:
                with open(self.state / f"filler{size}", "wb",
                          buffering=0) as file:
                    while True:
                        file.write(b"x" * size)
            except OSError:
                pass

    def says(self, code, *args):
        done = self.served.ctl(*args)
        said = done.stdout + done.stderr
        self.assertEqual(code, done.returncode, f"{args}: {said}")
        return said

    def test_each_verb(self):
        ended = [self.submit("ok") for _ in range(3)]
        for job_id in ended:
            self.served.finish(job_id)
        # It writes nothing more once it hangs.
        with self.served.watch(self.submit("hang")) as watch:
            watch.until_step(1)
        queued = self.submit("ok")
        before = {job["id"] for job in self.served.ctl_json("list")}
        self.fill()
        for args in (["set", ended[0], "--pin"], ["hold", queued],
                     ["set", queued, "--top"],
                     ["retry", ended[0], "--from-scratch"],
                     ["submit", str(self.folder / "job.json"), "--detach"],
                     ["clone", ended[0], "--detach"],
                     ["model", "push", str(self.model)], ["admin", "drain"]):
            with self.subTest(args[0]):
                self.assertRegex(self.says(6, *args), FULL)
        self.assertEqual(before,
                         {job["id"] for job in self.served.ctl_json("list")})
        self.assertIn(queued[-8:], self.says(0, "queue"))
        self.says(0, "admin", "gc", "--dry-run")
        self.says(0, "delete", ended[1])
        self.assertNotIn(ended[1], {
            job["id"] for job in self.served.ctl_json("list")})
        (self.state / "filler65536").unlink()
        self.says(0, "set", ended[0], "--pin")
        self.says(0, "hold", queued)
        self.says(0, "admin", "gc")
