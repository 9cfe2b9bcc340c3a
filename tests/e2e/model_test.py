# SPDX-License-Identifier: Apache-2.0
"""Models that a user pushes, killed in the middle of it; and `mpsctl model pull`
with an `hf` of our own (tests/fakes/fake_hf.py): a pull that is killed with its
daemon, and jobs that train what was pulled."""

import json
import os
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
        (self.model / "notes.txt").write_text("to read")
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

    def test_init_finds_the_model_and_its_job_trains(self):
        daemon = self.daemon()
        self.push(daemon, self.model)
        rows = [json.dumps({"question": f"how is {i}", "answer": "well"})
                for i in range(30)]
        data = self.folder / "set" / "faq.jsonl"
        data.parent.mkdir()
        data.write_text("\n".join(rows))
        job = self.folder / "first.json"
        said = daemon.says("init", "--task", "CAUSAL_LM", data.parent, "-o", job)
        self.assertIn(f'"{NAME}"', said)
        self.assertIn("question: 8 characters on average, 9 at most", said)
        self.assertIn("Verdict: fits", said)
        self.assertIn(f"Next: `mpsctl submit {job}`", said)
        done = daemon.succeed(job, "--set", "device=cpu")
        self.assertEqual("tiny-faq", done["name"])
        self.assertEqual("tiny-faq-2", daemon.succeed(job)["name"])

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


FAKE_HF = harness.ROOT / "tests/fakes/fake_hf.py"


class ModelPullTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.hf = self.bin / "hf"
        shutil.copy(FAKE_HF, self.hf)
        harness.write_model(self.bin / "hub" / "org" / "tiny")

    def start_daemon(self, *options, **more):
        return self.daemon(
            "--hf-command", str(self.hf), *options,
            env={"HF_HUB_CACHE": str(self.cache), "HF_TOKEN": "hf_t0ken"},
            **more)

    def set_mode(self, mode):
        (self.bin / "mode").write_text(mode)

    def repository(self, name="org--tiny"):
        return self.cache / f"models--{name}"

    def part(self):
        """A file that hf is writing."""
        return list(self.repository().glob("blobs/*.incomplete"))

    def calls(self):
        return [json.loads(line)
                for line in (self.bin / "calls").read_text().splitlines()]

    def begin_hanging(self, daemon, mode="hang"):
        self.set_mode(mode)
        daemon.says("model", "pull", "--detach", "org/tiny")
        self.eventually(self.part)

    def is_alive(self):
        """Whether anything of the last hf's group is."""
        try:
            os.killpg(self.calls()[-1]["pid"], 0)
        except ProcessLookupError:
            return False
        return True

    def test_a_job_trains_what_was_pulled(self):
        daemon = self.start_daemon()
        job = harness.write_job(self.folder, model="org/tiny")
        missing = daemon.ctl("submit", str(job), "--detach")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("model pull org/tiny", missing.stderr)

        self.assertIn("Model org/tiny is there: ",
                      daemon.says("model", "pull", "org/tiny"))
        call, = self.calls()
        self.assertEqual(["download", "org/tiny", "--revision=main"],
                         call["argv"][:3])
        self.assertEqual("hf_t0ken", call["environment"]["HF_TOKEN"])
        commit = (self.repository() / "refs" / "main").read_text()
        snapshot = self.repository() / "snapshots" / commit
        for file in (self.bin / "hub/org/tiny").iterdir():
            if file.name == "README.md":
                continue
            self.assertEqual((snapshot / file.name).read_bytes(),
                             file.read_bytes(), file.name)
        listed = {m["name"]: m
                  for answer in daemon.ctl_json("model", "list")
                  for m in answer.get("models", [answer])}
        self.assertEqual(listed["org/tiny"]["revision"], commit)
        self.assertEqual(listed["org/tiny"]["owner"], harness.ACCOUNT)

        daemon.says("submit", job)

    def test_a_kill_of_the_daemon_kills_hf(self):
        daemon = self.start_daemon()
        self.begin_hanging(daemon, "deaf")
        self.assertTrue(self.is_alive())
        daemon.kill()
        self.eventually(lambda: not self.is_alive())
        self.set_mode("ok")
        daemon.start()
        daemon.says("model", "pull", "org/tiny")

    def test_sigterm_ends_a_pull_and_the_daemon(self):
        daemon = self.start_daemon()
        self.begin_hanging(daemon, "deaf")
        self.assertEqual(0, daemon.terminate())
        self.eventually(lambda: not self.is_alive())
