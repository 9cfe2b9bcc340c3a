# SPDX-License-Identifier: Apache-2.0
"""Models that a user pushes: the real programs, killed in the middle of it."""

import json
import pathlib
import random
import shutil
import time

import harness

NAME = "team/tiny"


class ModelTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def push(self, daemon, folder, name=NAME):
        result = daemon.ctl("model", "push", str(folder), "--name", name)
        self.assertEqual(0, result.returncode, result.stderr)
        return result

    def job(self, model=NAME, **changes):
        return harness.write_job(self.folder, model=model, **changes)

    def other_model(self):
        """The same model with another text, as a second revision."""
        folder = self.folder / "other"
        shutil.copytree(self.model, folder)
        (folder / "generation_config.json").write_text('{"do_sample": true}')
        return folder

    def revisions(self, daemon):
        return {path.name for path in (daemon.state_dir / "models").glob(
            "models--team--tiny/pushed/*")}

    def test_a_pushed_model_trains_and_has_its_name(self):
        # Jobs may read nothing of this machine but what was sent.
        closed = self.folder / "closed"
        closed.mkdir()
        daemon = self.daemon("--model-root", str(closed), "--data-root",
                             str(closed))
        (self.model / "notes.txt").write_text("for people")
        pushed = self.push(daemon, self.model)
        self.assertIn(f"Model {NAME} is there: ", pushed.stdout)
        self.assertIn("notes.txt", pushed.stderr)
        again = self.push(daemon, self.model)
        self.assertIn(f"Model {NAME} was already there: ", again.stdout)
        job = daemon.succeed(self.job())
        self.assertEqual(NAME, job["model"])
        output = self.download(daemon, job["id"])
        config = json.loads((output / "adapter_config.json").read_text())
        self.assertEqual(NAME, config["base_model_name_or_path"])
        self.assertIsNone(config.get("revision"))
        model, = daemon.ctl_json("model", "list", NAME)
        self.assertEqual("llama", model["family"])
        self.assertEqual(harness.ACCOUNT, model["owner"])
        self.assertEqual(["CAUSAL_LM", "SEQ_CLS"], model["tasks"])
        self.assertTrue(model["fits"])
        self.assertIn("last_use_time", model)

    def test_a_missing_model_says_how_it_gets_there(self):
        closed = self.folder / "closed"
        closed.mkdir()
        daemon = self.daemon("--model-root", str(closed), worker="fake_worker")
        said = daemon.says("submit", self.job("org/none"), code=2)
        self.assertIn("`mpsctl model pull org/none`", said)
        self.assertIn("`mpsctl model push FOLDER --name org/none`", said)
        said = daemon.says("submit", self.job("model"), code=2)
        self.assertIn(f"`mpsctl model push {self.model}`", said)
        self.push(daemon, self.model, "org/None")
        said = daemon.says("submit", self.job("org/none"), code=2)
        self.assertIn("but 'org/None'", said)

    def test_a_queued_job_keeps_the_files_it_was_submitted_with(self):
        daemon = self.daemon("--blob-grace-seconds", "1")
        self.push(daemon, self.model)
        running = daemon.submit(self.job(training={"max_steps": 100000}))["id"]
        self.eventually(lambda: daemon.state(running) == "RUNNING")
        queued = daemon.submit(self.job())["id"]
        old = self.revisions(daemon)
        self.push(daemon, self.other_model())
        self.assertEqual(2, len(self.revisions(daemon)))
        said = daemon.says("model", "rm", NAME, code=2)
        self.assertIn("a job that has not ended needs the model", said)
        daemon.ctl("cancel", running)
        self.assertEqual("SUCCEEDED", daemon.finish(queued)["state"])
        self.assertTrue(old < self.revisions(daemon))
        for job_id in (running, queued):
            daemon.says("delete", job_id)
        # With its last job a revision goes, and its blobs after their grace.
        self.eventually(lambda: not old & self.revisions(daemon))
        self.assertEqual(1, len(self.revisions(daemon)))
        daemon.says("model", "rm", NAME)
        self.eventually(lambda: not list(
            (daemon.state_dir / "blobs").glob("??/*")))
        daemon.says("model", "rm", NAME, code=4)

    def test_pushes_at_once_of_the_same_files_have_them_once(self):
        daemon = self.daemon(worker="fake_worker")
        names = [f"m{i}" for i in range(6)] + ["m0"] * 3
        harness.at_once(lambda name: self.push(daemon, self.model, name), names)
        listed = daemon.ctl_json("model", "list")
        self.assertEqual(sorted(set(names)), [m["name"] for m in listed])
        files = len([f for f in self.model.iterdir() if f.is_file()])
        blobs = list((daemon.state_dir / "blobs").glob("??/*"))
        self.assertLessEqual(len(blobs), files)

    def test_killed_in_the_middle_a_name_has_old_files_or_new_ones(self):
        daemon = self.mpsd
        folders = [self.model, self.other_model()]
        whole = []
        for folder in folders:
            self.push(daemon, folder)
            whole.append(daemon.ctl_json("model", "list", NAME)[0]["revision"])
        draw = random.Random(18)
        for turn in range(12):
            # What the state folder has stays there: the push links it anew.
            pusher = daemon.begin("model", "push", folders[turn % 2], "--name",
                                  NAME)
            time.sleep(draw.uniform(0, 0.12))
            daemon.restart()
            pusher.wait(harness.TIMEOUT)
            model, = daemon.ctl_json("model", "list", NAME)
            self.assertIn(model["revision"], whole)
            folder = (daemon.state_dir / "models/models--team--tiny/pushed"
                      / model["revision"])
            source = folders[whole.index(model["revision"])]
            for file in folder.iterdir():
                self.assertEqual((source / file.name).read_bytes(),
                                 file.read_bytes(), file)
            self.eventually(lambda: not list(folder.parent.glob(".*")))

    def test_a_removal_that_is_killed_leaves_the_model_or_nothing(self):
        daemon = self.mpsd
        draw = random.Random(18)
        for _ in range(8):
            self.push(daemon, self.model)
            remover = daemon.begin("model", "rm", NAME)
            time.sleep(draw.uniform(0, 0.08))
            daemon.restart()
            remover.wait(harness.TIMEOUT)
            listed = daemon.ctl_json("model", "list")
            self.eventually(lambda: len(listed) == len(list(
                (daemon.state_dir / "models").iterdir())))

    def test_a_folder_of_links_is_sent_as_files(self):
        daemon = self.daemon(worker="fake_worker")
        snapshot = (self.folder / "hub/models--org--linked/snapshots/c0ffee")
        snapshot.mkdir(parents=True)
        for file in self.model.iterdir():
            (snapshot / file.name).symlink_to(file)
        daemon.says("model", "push", snapshot)
        model, = daemon.ctl_json("model", "list")
        self.assertEqual("org/linked", model["name"])
        for file in pathlib.Path(daemon.state_dir, "models").rglob("*"):
            self.assertFalse(file.is_symlink(), file)
