# SPDX-License-Identifier: Apache-2.0
"""mpsctl plan: what a job needs and takes, beside the queue and never in it."""

import subprocess
import sys
import time
import unittest

import harness
import team_test


class PlanTest(harness.EndToEndTest):
    def plans(self):
        """The folders of plans under way."""
        folder = self.folder / "state" / "plans"
        return list(folder.iterdir()) if folder.exists() else []

    def eventually(self, holds):
        deadline = time.monotonic() + harness.TIMEOUT
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.02)

    def job(self, mode="tiny", **changes):
        """A job.json whose name chooses the fake worker's mode."""
        path = harness.write_job(self.folder, **changes)
        path.write_text(path.read_text().replace('"tiny"', f'"{mode}"'))
        return str(path)

    def begin(self, daemon, path):
        """A plan under way."""
        process = subprocess.Popen(
            [str(harness.BIN / "mpsctl"), "--state-dir", str(daemon.state_dir),
             "plan", path],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=harness.environment(), stdin=subprocess.DEVNULL)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.kill)
        return process

    def assert_nothing_is_left(self, daemon):
        self.eventually(lambda: not self.plans() and not daemon.workers())
        self.assertEqual([], daemon.ctl_json("queue")[0].get("entries", []))

    def test_the_real_worker_plans_and_queues_nothing(self):
        daemon = self.daemon()
        path = self.job()
        result = daemon.ctl("plan", path)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("Verdict: fits\n", result.stdout)
        self.assertIn("8 rows, ", result.stdout)
        self.assertIn("  ahead         0 jobs\n", result.stdout)
        plan, = daemon.ctl_json("plan", path)
        self.assertEqual(8, int(plan["data"]["train"]["rows"]))
        self.assertEqual(1, int(plan["data"]["eval"]["rows"]))
        self.assertEqual(8, int(plan["steps"]["total_steps"]))
        self.assertGreater(int(plan["memory"]["peak_bytes"]), 1 << 19)
        self.assert_nothing_is_left(daemon)

        # What the plan says of the data, the run says too; then its pace is
        # known.
        job = daemon.finish(daemon.submit(path)["id"])
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(int(plan["steps"]["total_steps"]),
                         int(job["progress"]["total_steps"]))
        plan, = daemon.ctl_json("plan", path)
        self.assertEqual("HISTORY", plan["time"]["source"])
        self.assertEqual(1, plan["time"]["runs"])
        self.assertGreater(plan["queue"]["finish_seconds"], 0)

    @unittest.skipIf(sys.platform == "darwin", "a Mac has no CUDA")
    def test_a_card_has_its_name_its_memory_and_its_roofline(self):
        for card, memory, rates in (("NVIDIA H200", 141 << 30, "NVIDIA H200; "),
                                    ("NVIDIA T4", 141 << 30, None),
                                    (None, None, None)):
            with self.subTest(card):
                options = [f"LD_LIBRARY_PATH={harness.BIN / 'fake_cuda'}"]
                options += [f"FAKE_CARD={card}"] if card else []
                daemon = self.daemon(*(word for option in options
                                       for word in ("--environment", option)))
                path = self.job(device="cuda")
                plan, = daemon.ctl_json("plan", path)
                self.assertEqual("cuda", plan["model"]["device"])
                self.assertEqual(card or "", plan["model"]["chip"])
                self.assertEqual(
                    memory, plan["memory"].get("limit_bytes") and
                    int(plan["memory"]["limit_bytes"]))
                if rates:
                    self.assertEqual("ROOFLINE", plan["time"]["source"])
                    self.assertIn(rates, plan["time"]["rates"])
                    self.assertIn("device        cuda, NVIDIA H200\n",
                                  daemon.ctl("plan", path).stdout)
                else:
                    self.assertIsNone(plan["time"]["seconds_per_step"])
                daemon.terminate()

    def test_a_probe_measures_what_the_plan_tells(self):
        daemon = self.daemon()
        path = self.job()
        result = daemon.ctl("plan", path, "--probe")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("measured by a probe", result.stdout)
        probe, = daemon.ctl_json("list", "--all")
        # The same probe again, and of a job that has other steps.
        plan, = daemon.ctl_json("plan", path, "--probe-of", probe["id"])
        self.assertEqual("PROBE", plan["memory"]["source"])
        self.assertEqual("PROBE", plan["time"]["source"])
        other = daemon.ctl("plan", self.job(training={"max_length": 32}),
                           "--probe-of", probe["id"])
        self.assertEqual(2, other.returncode, other.stdout)
        self.assertIn("training.max_length was 64 and is 32", other.stderr)

    def test_what_is_wrong_with_a_job_is_said_as_submit_says_it(self):
        daemon = self.daemon()
        for changes, words in (
                ({"training": {"max_lenght": 3}}, "max_length"),
                ({"model": "/no/such/model"}, "/no/such/model"),
                ({"rows": ["{}"]}, "train.jsonl:1")):
            with self.subTest(words):
                result = daemon.ctl("plan", self.job(**changes))
                self.assertEqual(2, result.returncode, result.stdout)
                self.assertIn(words, result.stderr)
                self.assertNotIn("/plans/", result.stderr)
                self.job(training={})
        self.assert_nothing_is_left(daemon)

    def test_a_process_that_goes_wrong_is_an_error_in_words(self):
        daemon = self.daemon(worker="fake_worker")
        for mode, words in (("garbage", "no JSON"),
                            ("crash-abort", "crashed with signal 6"),
                            ("endless", "a line of more than"),
                            ("exit-1", "ended without a plan"),
                            ("no-plan", "made no plan"),
                            ("rejected", "no label")):
            with self.subTest(mode):
                result = daemon.ctl("plan", self.job("fake:" + mode))
                self.assertNotIn(result.returncode, (0, 10), result.stdout)
                self.assertIn(words, result.stderr)
        self.assert_nothing_is_left(daemon)
        self.assertEqual(0, daemon.ctl("plan", self.job()).returncode)

    def test_a_user_has_one_plan_at_a_time_and_a_killed_client_makes_room(self):
        daemon = self.daemon(worker="fake_worker")
        hang = self.job("fake:deaf")
        first = self.begin(daemon, hang)
        self.eventually(lambda: len(daemon.workers()) == 1)
        second = self.begin(daemon, self.job("fake:ok"))
        time.sleep(0.5)
        self.assertIsNone(second.poll(), "it waits for its turn")
        first.kill()
        self.eventually(lambda: second.poll() is not None)
        self.assertEqual(0, second.returncode, second.stderr.read())
        self.assert_nothing_is_left(daemon)

    def test_a_killed_daemon_leaves_nothing(self):
        daemon = self.daemon(worker="fake_worker")
        client = self.begin(daemon, self.job("fake:hang"))
        self.eventually(lambda: len(daemon.workers()) == 1)
        worker, = daemon.workers()
        self.assertEqual(1, len(self.plans()))
        daemon.kill()
        self.assertNotEqual(0, client.wait(harness.TIMEOUT))
        self.addCleanup(harness._signal, worker, 9)
        daemon.start()
        self.eventually(lambda: not self.plans())
        self.assertEqual(0, daemon.ctl("plan", self.job()).returncode)
        # SIGTERM does not wait for a plan.
        self.begin(daemon, self.job("fake:deaf"))
        self.eventually(lambda: len(daemon.workers()) == 1)
        self.assertEqual(0, daemon.terminate())
        self.assertEqual([], self.plans())

    def test_plans_beside_a_running_job_and_says_what_is_left_of_it(self):
        daemon = self.daemon(worker="fake_worker")
        job = daemon.submit(self.job("fake:ok-slow",
                                     training={"max_steps": 2000}))
        self.eventually(
            lambda: daemon.show(job["id"]).get("progress") is not None)
        path = self.job()
        plan, = daemon.ctl_json("plan", path)
        self.assertEqual(1, plan["queue"]["jobs_ahead"])
        self.assertGreater(plan["queue"]["wait_seconds"], 1)
        self.assertGreater(plan["queue"]["finish_seconds"],
                           plan["queue"]["wait_seconds"])
        self.assertEqual("RUNNING", daemon.show(job["id"])["state"])
        # A job that never ran tells nobody how long it takes.
        daemon.submit(path)
        plan, = daemon.ctl_json("plan", path)
        self.assertEqual(2, plan["queue"]["jobs_ahead"])
        self.assertIsNone(plan["queue"]["wait_seconds"])
        self.assertIn("has not finished a step yet", plan["queue"]["not_told"][0])


class PlansOfATeam(harness.EndToEndTest):
    mpsd = team_test.TeamTest.mpsd
    make_team = team_test.TeamTest.make_team
    job = team_test.TeamTest.job
    submit = team_test.TeamTest.submit
    refused = team_test.TeamTest.refused
    eventually = team_test.TeamTest.eventually

    def test_over_tls_and_where_jobs_are_private(self):
        team = self.make_team("--private-jobs")
        ada, bob = team["ada"], team["bob"]
        plan, = ada.ctl_json("plan", self.job("fake:ok"))
        self.assertEqual("PASS", plan["verdict"])
        job = self.submit(ada, name="fake:hang")
        self.eventually(lambda: ada.ctl_json("show", job["id"])[0]["state"]
                        == "RUNNING")
        plan, = bob.ctl_json("plan", self.job("fake:ok"))
        self.assertEqual(1, plan["queue"]["jobs_ahead"])
        self.assertIsNone(plan["queue"]["wait_seconds"])
        self.assertIn("only the owner and admins may know",
                      plan["queue"]["not_told"][0])
        self.refused(team["vera"].ctl("plan", self.job("fake:ok")), "role")
        self.refused(bob.ctl("plan", self.job("fake:ok"), "--probe-of",
                             job["id"]), "ada")


if __name__ == "__main__":
    unittest.main()
