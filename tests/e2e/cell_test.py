# SPDX-License-Identifier: Apache-2.0
"""What a worker gets of its daemon, and what it leaves: no secret, bounded
resources, a folder of its own for temporary files. What a job may read of the
daemon's machine: everything that its owner may while no other user reaches the
daemon, and named folders if there is a port. Pipes and devices that a job names
for files hold no job up."""

import os
import pathlib
import socket
import sys
import unittest

import harness

SECRETS = {
    "HF_TOKEN": "canary-1", "AWS_SECRET_ACCESS_KEY": "canary-2",
    "SSH_AUTH_SOCK": "/canary-3", "GITHUB_TOKEN": "canary-4",
    "WANDB_API_KEY": "canary-5", "https_proxy": "http://u:canary-6@127.0.0.1",
    "NOTIFY_SOCKET": "/canary-7", "MPSD_SOMETHING": "canary-8",
    "DATABASE_URL": "canary-9", "NOBODY_THOUGHT_OF_IT": "canary-10"}


def make_socket(path):
    """A name that no open(2) takes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@unittest.skipUnless(os.path.isdir("/proc/self"), "reads /proc")
class CellTest(harness.EndToEndTest):
    def training(self, steps=4000, **changes):
        return harness.write_job(self.folder, training={
            "max_steps": steps, "save_steps": 20}, **changes)

    def running(self, daemon, job_id):
        """The worker's folder in /proc, once it trains."""
        with daemon.watch(job_id) as watch:
            watch.until_step(1)
        worker, = daemon.workers()
        return pathlib.Path("/proc") / str(worker)

    def test_what_a_worker_gets(self):
        daemon = self.daemon("--environment", "FOR_JOBS=yes", env=SECRETS)
        job = daemon.submit(self.training())
        process = self.running(daemon, job["id"])
        environment = dict(
            entry.split("=", 1) for entry in
            (process / "environ").read_text().split("\0") if entry)
        self.assertNotIn("canary", str(environment))
        self.assertEqual("yes", environment["FOR_JOBS"])
        self.assertEqual("/nonexistent", environment["HOME"])

        limits = (process / "limits").read_text()
        self.assertRegex(limits, r"Max core file size\s+0\s+0\s")
        files = limits.split("Max open files")[1].split()
        self.assertLessEqual(int(files[1]), 4096)
        processes = limits.split("Max processes")[1].split()
        self.assertLessEqual(int(processes[1]), 32768)
        self.assertRegex((process / "status").read_text(), r"Umask:\s+0077\n")

        # The log twice, the stream, the lease; the rest the worker opened.
        table = {int(fd.name): os.readlink(fd)
                 for fd in (process / "fd").iterdir()}
        log = str(daemon.state_dir / "jobs" / job["id"] / "log")
        self.assertEqual(["/dev/null", log, log], [table[n] for n in range(3)])
        self.assertTrue(table[3].startswith("socket:"), table)
        self.assertEqual(str(daemon.state_dir / "worker.lock"), table[4])
        for number, target in table.items():
            self.assertNotIn("mpsd.db", target, number)
            self.assertNotIn("mpsd.sock", target, number)
        self.assertEqual(1, sum(target.startswith("socket:")
                                for target in table.values()), table)

        temporary = pathlib.Path(environment["TMPDIR"])
        self.assertEqual(daemon.state_dir / "tmp" / job["id"], temporary)
        for folder in (temporary, temporary.parent):
            self.assertEqual(0o700, folder.stat().st_mode & 0o7777)
        (temporary / "left").mkdir()
        daemon.ctl("cancel", job["id"])
        daemon.finish(job["id"])
        self.assertEqual([], list(temporary.parent.iterdir()))

    def fails(self, daemon, **changes):
        job = daemon.finish(daemon.submit(self.training(1, **changes))["id"])
        self.assertEqual("FAILED", job["state"], job)
        self.assertEqual(1, job["attempt"], job)
        return job["message"]

    @unittest.skipIf(sys.platform == "darwin", "/dev/zero is Linux's")
    def test_what_is_no_file_holds_no_job_up(self):
        daemon = self.daemon()
        weights = self.model / "model.safetensors"
        aside = self.folder / "weights"
        weights.rename(aside)
        for make in (lambda path: os.mkfifo(path),
                     lambda path: path.symlink_to("/dev/zero"),
                     lambda path: path.symlink_to("/dev/fd/0"),
                     lambda path: path.symlink_to("/proc/self/mem"),
                     make_socket,
                     lambda path: path.mkdir()):
            make(weights)
            self.fails(daemon, model=str(self.model))
            weights.rmdir() if weights.is_dir() else weights.unlink()
        # A control.
        aside.rename(weights)
        daemon.succeed(self.training(1, model=str(self.model)))


class PathsTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.roots = self.folder / "open"
        self.roots.mkdir()

    def open_daemon(self, *options, **more):
        """Who has a token may send it a job by its port."""
        return self.daemon("--listen", "127.0.0.1:0", *options, **more)

    def test_the_worker_opens_nothing_outside(self):
        daemon = self.open_daemon("--model-root", str(self.roots))
        linked = harness.write_model(self.roots / "linked")
        weights = linked / "model.safetensors"
        weights.unlink()
        weights.symlink_to(self.model / "model.safetensors")
        job = daemon.finish(daemon.submit(harness.write_job(
            self.folder, model=str(linked)))["id"])
        self.assertEqual("FAILED", job["state"])
        self.assertEqual(1, job["attempt"])
        self.assertIn("outside the folders that jobs may read",
                      job["message"])
        # A control: the same file within.
        weights.unlink()
        os.link(self.model / "model.safetensors", weights)
        daemon.succeed(harness.write_job(self.folder, model=str(linked)))

    def test_a_link_made_after_submit_leads_to_no_upload(self):
        daemon = self.open_daemon("--model-root", str(self.roots),
                                  "--data-root", str(self.roots))
        model = harness.write_model(self.roots / "tiny")
        first = daemon.submit(harness.write_job(
            self.folder, model=str(model),
            training={"max_steps": 1, "save_steps": 0}), "--hold")["id"]
        blob = next((daemon.state_dir / "blobs").glob("??/*"))
        data = self.roots / "rows.jsonl"

        def run(make):
            data.unlink(missing_ok=True)
            data.write_text(harness.row("Sky?", "blue") + "\n")
            job, = daemon.ctl_json("clone", first, "--hold", "--detach", "--set",
                                   f'dataset.train=["{data}"]')
            data.unlink()
            make()
            daemon.says("release", job["id"])
            return daemon.finish(job["id"])

        said = set()
        for target in (blob, blob.with_name("0" * 64), blob.parent):
            job = run(lambda target=target: data.symlink_to(target))
            self.assertEqual("FAILED", job["state"])
            said.add(job["message"])
        self.assertEqual(1, len(said), said)
        self.assertIn("outside the folders that jobs may read", said.pop())
        # Other rows of the folder are read, and the job says so.
        job = run(lambda: data.write_text(harness.row("Grass?", "green")))
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertIn("dataset.train: files changed", daemon.says(
            "show", job["id"]))

    def test_no_secret_is_copied_into_a_result(self):
        daemon = self.daemon()
        secret = self.folder / "id_secret"
        secret.write_text("a key of the owner\n")
        (self.model / "vocab.txt").symlink_to(secret)
        said = daemon.says("submit", harness.write_job(
            self.folder, model=str(self.model), fine_tune_type="full",
            lora=None, training={"max_steps": 1, "save_steps": 0}), code=2)
        self.assertIn("leads out of the model's folder", said)
        job, = daemon.ctl_json("list")
        for file in (daemon.state_dir / "jobs" / job["id"]).rglob("*"):
            if file.is_file():
                self.assertNotIn(b"a key of the owner", file.read_bytes())
