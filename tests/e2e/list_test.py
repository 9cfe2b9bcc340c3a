# SPDX-License-Identifier: Apache-2.0
"""What `mpsctl list` finds, sorts and pages over, and what a shell completes,
by the real programs: across a kill of mpsd, with private jobs, and while jobs
come and go."""

import csv
import io
import os
import shutil
import subprocess
import threading
import time

import harness


class ListTest(harness.EndToEndTest):
    def submit(self, daemon, name, *options, state="SUCCEEDED"):
        job_id = daemon.submit(harness.write_job(
            self.folder, f"{name}.json", called=name), *options)["id"]
        if state is not None:
            self.assertEqual(state, daemon.finish(job_id)["state"])
        return job_id

    def names(self, daemon, *options):
        said = daemon.says("list", "--columns", "name", "--csv", *options)
        return [row[0] for row in csv.reader(io.StringIO(said))][1:]

    def test_finds_sorts_and_pages_across_a_kill(self):
        daemon = self.daemon(worker="fake_worker")
        self.submit(daemon, "b moods", "--label", "team=nlp")
        self.submit(daemon, "A legal", "--label", "team=cv")
        self.submit(daemon, "c Moods", "--label", "team=nlp")
        self.submit(daemon, "fake:rejected", state="FAILED")
        for _ in range(2):  # before the kill and after
            self.assertEqual(["fake:rejected", "c Moods", "A legal", "b moods"],
                             self.names(daemon))
            self.assertEqual(["A legal", "b moods", "c Moods", "fake:rejected"],
                             self.names(daemon, "--sort", "name"))
            self.assertEqual(["c Moods", "b moods"],
                             self.names(daemon, "--text", "mOODs"))
            self.assertEqual(["c Moods"],
                             self.names(daemon, "--text", "c "))
            self.assertEqual(["b moods"], self.names(
                daemon, "--label", "team=nlp", "--sort", "create_time",
                "--limit", "1"))
            self.assertEqual(["fake:rejected"],
                             self.names(daemon, "--state", "failed"))
            self.assertEqual([], self.names(daemon, "--until", "1d"))
            self.assertEqual(4, len(self.names(daemon, "--ended-since", "1d")))
            self.assertEqual(["A legal", "b moods"], self.names(
                daemon, "--sort", "-name", "--limit", "2", "--page", "2")[::-1])
            self.assertEqual("2\n", daemon.ctl(
                "list", "--count", "--label", "team=nlp").stdout)
            losses = [row["eval_loss"] for row in daemon.ctl_json(
                "list", "--columns", "eval_loss", "--sort",
                "eval_loss,-create_time", "--all")]
            found = [loss for loss in losses if loss is not None]
            self.assertEqual(sorted(found), losses[:len(found)])
            daemon.restart()

    # Nobody's list names a job twice or leaves one out that was there all the
    # time, whatever comes and goes in between.
    def test_pages_stay_whole_while_jobs_come_and_go(self):
        daemon = self.daemon(worker="fake_worker")
        keep = [self.submit(daemon, f"keep {i}") for i in range(6)]
        ends = threading.Event()

        def come_and_go():
            while not ends.is_set():
                job_id = self.submit(daemon, "passing")
                daemon.ctl("delete", job_id)

        thread = threading.Thread(target=come_and_go)
        thread.start()
        try:
            for order in ("create_time", "-create_time", "name", "-end_time",
                          "state", "-device_seconds"):
                ids = daemon.ctl("list", "-q", "--text", "keep", "--sort",
                                 order, "--all").stdout.split()
                self.assertEqual(sorted(keep), sorted(ids), order)
                every = daemon.ctl("list", "-q", "--sort", order,
                                   "--all").stdout.split()
                self.assertEqual(len(every), len(set(every)), order)
                self.assertLessEqual(set(keep), set(every), order)
        finally:
            ends.set()
            thread.join()

    # Nothing of a private job is learnt by asking for it.
    def test_private_jobs_are_not_found_by_what_is_private(self):
        address = f"127.0.0.1:{harness.free_port()}"
        daemon = self.daemon("--listen", address, "--private-jobs",
                             "--model-root", str(self.folder),
                             worker="fake_worker")
        self.submit(daemon, "secret plan", "--label", "team=nlp")
        token = daemon.ctl("token", "create", "--user", "eve", "--role",
                           "user").stdout.strip()

        def eve(*options):
            return harness.Client(
                ("--server", address), harness.environment(
                    MPSD_TOKEN=token)).ctl_json("list", *options)

        self.assertEqual(1, len(eve()))
        self.assertEqual("", eve()[0]["name"])
        for options in (("--text", "secret"), ("--text", "nl"),
                        ("--label", "team=nlp"), ("--sort", "name"),
                        ("--sort", "eval_loss"), ("--model", "model")):
            self.assertEqual([], eve(*options), options)
        self.assertEqual([{"total": 0}], eve("--count", "--text", "secret"))
        self.assertEqual(1, len(eve("--text", harness.ACCOUNT)))

    def test_a_shell_completes_ids_of_the_right_states(self):
        daemon = self.daemon(worker="fake_worker")
        ended = self.submit(daemon, "$(touch ran)")
        running = self.submit(daemon, "fake:hang", state=None)

        def bash(*words):
            driver = self.folder / "driver.bash"
            script = harness.run("mpsctl", "completion", "bash").stdout
            line = " ".join(f"'{word}'" for word in words)
            driver.write_text(
                f"{script}\nCOMP_WORDS=(mpsctl --state-dir "
                f"'{daemon.state_dir}' {line})\n"
                "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_mpsctl\n"
                "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
            return subprocess.run(
                [shutil.which("bash"), str(driver)], capture_output=True,
                text=True, cwd=self.folder, timeout=harness.TIMEOUT, check=True,
                env=harness.environment(
                    PATH=f"{harness.BIN}:{os.environ['PATH']}")).stdout.split()

        def asked(*words):
            """A shell waits for the daemon for a second at most, and then has
            no ids: on a busy machine it is asked again."""
            deadline = time.monotonic() + harness.TIMEOUT
            while not (found := bash(*words)) and time.monotonic() < deadline:
                time.sleep(0.1)
            return found

        self.assertEqual([running, ended], asked("show", ""))
        self.assertEqual([running], asked("cancel", "0"))
        self.assertEqual([ended], asked("delete", "0"))
        self.assertEqual([ended], asked("report", running, ""))
        self.assertEqual(["eval_loss", "eval_loss_before"],
                         [w for w in bash("list", "--columns", "eval_l")
                          if w != "eval_loss_after"])
        self.assertFalse((self.folder / "ran").exists())
