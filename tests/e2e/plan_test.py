# SPDX-License-Identifier: Apache-2.0
"""mpsctl plan: what a job needs and takes, next to the queue and never in it."""

import sys
import time
import unittest

import harness


class PlanTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def plans(self, daemon):
        """The folders of plans under way."""
        folder = daemon.state_dir / "plans"
        return list(folder.iterdir()) if folder.exists() else []

    def job(self, mode="tiny", **changes):
        """A job.json whose name chooses the fake worker's mode."""
        return harness.write_job(self.folder, called=mode, **changes)

    def begin(self, daemon, path):
        """A plan under way."""
        process = daemon.begin("plan", path)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.kill)
        return process

    def assert_nothing_is_left(self, daemon):
        self.eventually(lambda: not self.plans(daemon) and not daemon.workers())
        self.assertEqual([], daemon.ctl_json("queue")[0].get("entries", []))

    def test_the_real_worker_plans_and_queues_nothing(self):
        daemon = self.daemon()
        path = self.job()
        said = daemon.says("plan", path)
        self.assertIn("Verdict: fits\n", said)
        self.assertIn("8 rows, ", said)
        self.assertIn("  ahead         0 jobs\n", said)
        plan, = daemon.ctl_json("plan", path)
        self.assertEqual(8, int(plan["data"]["train"]["rows"]))
        self.assertEqual(1, int(plan["data"]["eval"]["rows"]))
        self.assertEqual(8, int(plan["steps"]["total_steps"]))
        self.assertGreater(int(plan["memory"]["peak_bytes"]), 1 << 19)
        self.assert_nothing_is_left(daemon)

        # What the plan says of the data, the run says too; then its pace is
        # known.
        job = daemon.succeed(path)
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

    def test_a_probe_measures_what_the_plan_states(self):
        daemon = self.daemon()
        path = self.job()
        said = daemon.says("plan", path, "--probe")
        self.assertIn("measured by a probe", said)
        probe, = daemon.ctl_json("list", "--all")
        # The same probe again, and of a job that has other steps.
        plan, = daemon.ctl_json("plan", path, "--probe-of", probe["id"])
        self.assertEqual("PROBE", plan["memory"]["source"])
        self.assertEqual("PROBE", plan["time"]["source"])
        other = daemon.says("plan", self.job(training={"max_length": 32}),
                            "--probe-of", probe["id"], code=2)
        self.assertIn("training.max_length was 64 and is 32", other)

    def test_a_user_has_one_plan_at_a_time_and_a_killed_client_makes_room(self):
        hang = self.job("fake:deaf")
        first = self.begin(self.mpsd, hang)
        self.eventually(lambda: len(self.mpsd.workers()) == 1)
        second = self.begin(self.mpsd, self.job("fake:ok"))
        time.sleep(0.5)
        self.assertIsNone(second.poll(), "it waits for its turn")
        first.kill()
        self.eventually(lambda: second.poll() is not None)
        self.assertEqual(0, second.returncode, second.stderr.read())
        self.assert_nothing_is_left(self.mpsd)

    def test_a_killed_daemon_leaves_nothing(self):
        client = self.begin(self.mpsd, self.job("fake:hang"))
        self.eventually(lambda: len(self.mpsd.workers()) == 1)
        worker, = self.mpsd.workers()
        self.assertEqual(1, len(self.plans(self.mpsd)))
        self.mpsd.kill()
        self.assertNotEqual(0, client.wait(harness.TIMEOUT))
        self.addCleanup(harness._signal, worker, 9)
        self.mpsd.start()
        self.eventually(lambda: not self.plans(self.mpsd))
        self.mpsd.says("plan", self.job())
        # SIGTERM does not wait for a plan.
        self.begin(self.mpsd, self.job("fake:deaf"))
        self.eventually(lambda: len(self.mpsd.workers()) == 1)
        self.assertEqual(0, self.mpsd.terminate())
        self.assertEqual([], self.plans(self.mpsd))
        self.mpsd.start()
