# SPDX-License-Identifier: Apache-2.0
"""What a job may read of the daemon's machine: everything that its owner may
while nobody else reaches the daemon, and named folders behind a port."""

import os

import harness


class PathsTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.roots = self.folder / "open"
        self.roots.mkdir()

    def open_daemon(self, *options, **more):
        """Whoever has a token may send it a job by its port."""
        return self.daemon("--listen", "127.0.0.1:0", *options, **more)

    def refused(self, daemon, job):
        result = daemon.ctl("submit", str(job), "--detach")
        self.assertNotEqual(0, result.returncode, result.stdout)
        return result.stderr

    def test_without_a_certificate_a_port_is_of_this_machine(self):
        mpsd = harness.run("mpsd", "--state-dir", self.folder / "state",
                           "--listen", "0.0.0.0:0")
        self.assertEqual(64, mpsd.returncode)
        self.assertIn("without a certificate", mpsd.stderr)
        self.assertIn("mpsd tls init", mpsd.stderr)
        self.assertFalse((self.folder / "state").exists())

    def test_behind_a_port_only_models_of_its_folders_are_read(self):
        daemon = self.open_daemon("--model-root", str(self.roots),
                                  worker="fake_worker")
        # The first line is mpsd's; mpsctl knows what its own machine has.
        said = {self.refused(daemon, harness.write_job(
            self.folder, model=str(path))).splitlines()[0].replace(
                str(path), "PATH")
                for path in (self.model, self.folder / "none")}
        self.assertEqual(1, len(said), said)
        self.assertIn("--model-root", said.pop())
        inside = harness.write_model(self.roots / "tiny")
        daemon.succeed(harness.write_job(self.folder, model=str(inside)))

    def test_a_result_is_no_model_of_another_job(self):
        daemon = self.daemon(worker="fake_worker")
        # While nobody else reaches mpsd, its owner names any model.
        job = daemon.succeed(harness.write_job(self.folder,
                                               model=str(self.model)))
        result = daemon.state_dir / "jobs" / job["id"] / "out/adapter"
        harness.write_model(result / "model")
        said = self.refused(daemon, harness.write_job(
            self.folder, model=str(result / "model")))
        self.assertIn("not a model for others", said)

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

    def test_no_secret_is_copied_into_a_result(self):
        daemon = self.daemon()
        secret = self.folder / "id_secret"
        secret.write_text("a key of the owner\n")
        (self.model / "vocab.txt").symlink_to(secret)
        job = daemon.finish(daemon.submit(harness.write_job(
            self.folder, model=str(self.model), fine_tune_type="full",
            lora=None, training={"max_steps": 1, "save_steps": 0}))["id"])
        self.assertEqual("FAILED", job["state"])
        self.assertIn("leads out of the model's folder", job["message"])
        for file in (daemon.state_dir / "jobs" / job["id"]).rglob("*"):
            if file.is_file():
                self.assertNotIn(b"a key of the owner", file.read_bytes())
