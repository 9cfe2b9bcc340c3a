# SPDX-License-Identifier: Apache-2.0
"""mpsctl model pull with the real mpsd, and an `hf` of our own (tests/fakes/
fake_hf.py): a pull that is followed, left, cancelled, killed with its daemon;
what hf refuses; and jobs that train what was pulled."""

import json
import os
import shutil

import harness

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

    def test_a_revision_is_another_name(self):
        daemon = self.start_daemon()
        self.assertIn('"model": "org/tiny@v1"',
                      daemon.says("model", "pull", "org/tiny@v1"))
        job = harness.write_job(self.folder, model="org/tiny")
        refused = daemon.ctl("submit", str(job), "--detach")
        self.assertNotEqual(refused.returncode, 0, "there is no ref main")
        job = harness.write_job(self.folder, model="org/tiny@v1")
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

    def test_a_pull_is_cancelled_and_begins_when_asked_again(self):
        daemon = self.start_daemon()
        self.begin_hanging(daemon)
        daemon.says("model", "pull", "--cancel", "org/tiny")
        self.eventually(lambda: not self.is_alive())
        daemon.says("model", "pull", "--cancel", "org/tiny", code=4)
        self.set_mode("ok")
        daemon.says("model", "pull", "org/tiny")

    def test_what_hf_refuses_is_shown(self):
        daemon = self.start_daemon()
        for name, words in (
                ("org/none", "Error: Repository Not Found for org/none"),
                ("org/../x", ""), ("a--b/c", "'--'"), ("--help/x", ""),
                ("-x/y", ""), ("org/x\n--token", ""), ("org/tiny@../x", ""),
                ("org/tiny@a b", "")):
            refused = daemon.ctl("model", "pull", "--", name)
            self.assertNotEqual(refused.returncode, 0, name)
            self.assertIn(words, refused.stderr)
        self.assertEqual(1, len(self.calls()), "names that are none reach no hf")

    def test_output_without_end_holds_up_nothing(self):
        daemon = self.start_daemon()
        self.set_mode("flood")
        daemon.says("model", "pull", "--detach", "org/tiny")
        for _ in range(5):
            daemon.says("info")
        daemon.says("model", "pull", "--cancel", "org/tiny")

    def test_a_full_disk_begins_no_pull(self):
        daemon = self.start_daemon("--min-free-bytes", str(1 << 59))
        refused = daemon.ctl("model", "pull", "org/tiny")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--min-free-bytes", refused.stderr)
        self.assertFalse((self.bin / "calls").exists())

    def test_without_hf_the_error_names_what_installs_it(self):
        daemon = self.start_daemon()
        self.hf.unlink()
        refused = daemon.ctl("model", "pull", "org/tiny")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"{self.hf}, is not a program", refused.stderr)
