# SPDX-License-Identifier: Apache-2.0
"""A disk that is full to its last byte: each verb says so and changes nothing,
what only reads goes on, and what makes room is done."""

import json
import os
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request

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
                                  "--openai-listen", "127.0.0.1:0",
                                  "--model-root", str(self.folder),
                                  worker="fake_worker")

    def submit(self, mode):
        job = harness.write_job(self.folder, training={"max_steps": 3})
        job.write_text(job.read_text().replace('"tiny"', f'"fake:{mode}"'))
        return self.served.submit(job)["id"]

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

    def asks(self, method, path, body=None, kind="application/json"):
        """What OpenAI's door answers: (code, text)."""
        request = urllib.request.Request(
            f"http://{self.address}/v1{path}", body, method=method,
            headers={"Authorization": "Bearer " + self.token,
                     "Content-Type": kind})
        try:
            with urllib.request.urlopen(request,
                                        timeout=harness.TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def sends(self, rows):
        parts = ("--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n"
                 "\r\nfine-tune\r\n--b\r\nContent-Disposition: form-data; "
                 "name=\"file\"; filename=\"t.jsonl\"\r\n\r\n"
                 + rows + "\r\n--b--\r\n")
        return self.asks("POST", "/files", parts.encode(),
                         "multipart/form-data; boundary=b")

    def test_openais_door(self):
        self.address = self.served.ctl_json("info")[0]["openai_address"]
        self.token = subprocess.run(
            [str(harness.BIN / "mpsd"), "token", "create", "--state-dir",
             str(self.state), "--user", "ann", "--role", "user"],
            capture_output=True, text=True, env=harness.environment(),
            check=True).stdout.strip()
        row = harness.row(*harness.MESSAGES[0]) + "\n"
        code, text = self.sends(row)
        self.assertEqual(200, code, text)
        file = json.loads(text)["id"]
        self.fill()
        job = json.dumps({"model": str(self.model), "training_file": file})
        for asked in (lambda: self.sends(row * 2), lambda: self.sends(row * 999),
                      lambda: self.asks("POST", "/fine_tuning/jobs",
                                        job.encode())):
            code, text = asked()
            self.assertGreaterEqual(code, 429, text)
            self.assertIn(FULL, json.loads(text)["error"]["message"])
        self.assertEqual([], self.served.ctl_json("list"))
        listed = json.loads(self.asks("GET", "/files")[1])["data"]
        self.assertEqual([file], [one["id"] for one in listed])
        code, text = self.asks("GET", f"/files/{file}/content")
        self.assertEqual((200, row), (code, text))
        # What makes room is done.
        code, text = self.asks("DELETE", f"/files/{file}")
        self.assertEqual(200, code, text)
        (self.state / "filler65536").unlink()
        code, text = self.sends(row * 2)
        self.assertEqual(200, code, text)

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
                     ["requeue", ended[0], "--from-scratch"],
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


if __name__ == "__main__":
    unittest.main()
