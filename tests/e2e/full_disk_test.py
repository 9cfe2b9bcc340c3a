# SPDX-License-Identifier: Apache-2.0
"""A disk that is full to its last byte: each verb says so and changes nothing,
what only reads goes on, and what makes room is done."""

import os
import shutil
import subprocess
import unittest

import harness

FULL = "disk is full"


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
            watch.until(lambda e: "progress" in e)
        queued = self.submit("ok")
        before = {job["id"] for job in self.served.ctl_json("list")}
        self.fill()
        for args in (["pin", ended[0]], ["hold", queued],
                     ["move", queued, "--top"],
                     ["retry", ended[0], "--from-scratch"],
                     ["submit", str(self.folder / "job.json"), "--detach"],
                     ["clone", ended[0], "--detach"],
                     ["model", "push", str(self.model)], ["drain"]):
            with self.subTest(args[0]):
                self.assertIn(FULL, self.says(6, *args))
        self.assertEqual(before,
                         {job["id"] for job in self.served.ctl_json("list")})
        self.assertIn(queued, self.says(0, "queue"))
        self.says(0, "gc", "--dry-run")
        self.says(0, "delete", ended[1])
        self.assertNotIn(ended[1], {
            job["id"] for job in self.served.ctl_json("list")})
        (self.state / "filler65536").unlink()
        self.says(0, "pin", ended[0])
        self.says(0, "hold", queued)
        self.says(0, "gc")
