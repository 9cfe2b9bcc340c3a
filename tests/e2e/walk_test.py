# SPDX-License-Identifier: Apache-2.0
"""The way of a new user at a laptop, over TLS with a token and without a shell
on the Mac: a model is pushed, jobs are submitted, cloned, chained, compared and
deleted, and the disk comes back; with real workers."""

import json
import os
import subprocess

import harness


def disk_bytes(folder):
    """Of the files below `folder`, hard links once."""
    seen = {}
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(base, name))
            except FileNotFoundError:
                continue
            seen[stat.st_ino] = stat.st_size
    return sum(seen.values())


class WalkTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        port = harness.free_port()
        self.state = self.folder / "state"
        self.make_certificates()
        # The model is the laptop's: a push is its only way to the daemon, and
        # no folder of the machine may be named.
        self.served = self.daemon("--listen", f"127.0.0.1:{port}",
                                  "--blob-grace-seconds", "1")
        home = self.folder / "home"
        home.mkdir()
        self.env = harness.environment(HOME=str(home))
        self.login(home, f"localhost:{port}")

    def login(self, home, server):
        token = self.served.says("admin", "token", "create", "--user", "ann", "--role",
                                 "user").strip()
        file = home / "token"
        file.write_text(token)
        file.chmod(0o600)
        shown = subprocess.run(
            ["openssl", "x509", "-in", str(self.state / "tls/ca.crt"),
             "-noout", "-fingerprint", "-sha256"], capture_output=True,
            text=True, check=True).stdout.strip()
        self.ctl("login", server, "--token-file", str(file),
                 "--fingerprint", "SHA256:" + shown.partition("=")[2])

    def ctl(self, *args, code=0):
        done = harness.run("mpsctl", *args, env=self.env)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stdout + done.stderr

    def json(self, *args):
        return [json.loads(line)
                for line in self.ctl("--json", *args).splitlines()]

    def ended(self, job_id):
        """The job, watched to its end."""
        return self.json("watch", job_id)[-1]

    def test_from_the_command_line(self):
        job_file = harness.write_job(self.folder, training={"max_steps": 6})
        # The first submit says what is missing, and how to bring it.
        said = self.ctl("submit", str(job_file), "--detach", code=2)
        self.assertIn("mpsctl model push", said)
        pushed = self.ctl("model", "push", str(self.model), "--name",
                          "team/tiny")
        self.assertIn("team/tiny", pushed)
        self.assertIn("team/tiny", self.ctl("model", "list"))
        again = self.ctl("model", "push", str(self.model), "--name",
                         "team/tiny")
        self.assertIn("team/tiny", again)

        harness.write_job(self.folder, model="team/tiny",
                          training={"max_steps": 6})
        first, = self.json("submit", str(job_file), "--detach")
        self.assertEqual("SUCCEEDED", self.ended(first["id"])["state"])
        self.assertEqual("team/tiny",
                         self.json("show", first["id"])[0]["model"])
        # Its log's last line comes a moment after its end.
        self.eventually(
            lambda: "the job is SUCCEEDED" in self.ctl("logs", first["id"]))
        empty = disk_bytes(self.state / "jobs")

        clone, = self.json("clone", first["id"], "--set",
                           "training.learning_rate=0.02", "--detach", "--hold")
        self.assertIn(clone["id"][-8:], self.ctl("list", "--state", "QUEUED"))
        chained_file = harness.write_job(
            self.folder, name="more.json", model="team/tiny",
            adapter="job:" + clone["id"], lora=None, training={"max_steps": 2})
        chained, = self.json("submit", str(chained_file), "--detach")
        queue = self.ctl("queue")
        self.assertIn(chained["id"][-8:], queue)
        said = self.ctl("model", "rm", "team/tiny", code=2)
        self.assertIn("needs", said)
        self.ctl("release", clone["id"])
        self.ctl("wait", clone["id"], chained["id"])
        self.assertEqual("SUCCEEDED", self.ended(chained["id"])["state"])
        diff = self.ctl("diff", first["id"], clone["id"])
        self.assertIn("training.learning_rate", diff)
        self.assertNotIn("training.max_steps", diff)

        self.ctl("set", first["id"], "--pin")
        self.ctl("delete", "--all", "--yes")
        left = {job["id"] for job in self.json("list", "--all")}
        self.assertEqual({first["id"]}, left)
        self.assertLessEqual(disk_bytes(self.state / "jobs"), empty)
        self.ctl("set", first["id"], "--unpin")
        self.ctl("delete", first["id"])
        self.ctl("model", "rm", "team/tiny")
        self.assertEqual(0, disk_bytes(self.state / "jobs") // (1 << 20))
