# SPDX-License-Identifier: Apache-2.0
"""compare-devices and parity: the real worker on two devices that every machine
has, the CPU and the CPU; recorded losses."""

import json

import harness

# client/exit_code.h
FAILED_JOB, BAD_INPUT, FAIL, WARN = 1, 2, 10, 11


class CompareTest(harness.EndToEndTest):
    def study(self, daemon, code, *args):
        """The result of a verb of a study."""
        result = daemon.ctl("--json", *map(str, args))
        self.assertEqual(code, result.returncode,
                         result.stdout + result.stderr)
        return json.loads(result.stdout)

    def findings(self, result):
        return {f["name"]: f for f in result["findings"]}

    def test_the_cpu_is_compared_with_itself(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        # Nothing is shorter than itself by 99 %.
        result = self.study(daemon, FAIL, "compare-devices", job, "--devices",
                            "cpu,cpu", "--steps", 3, "--threshold",
                            "compare.speedup=0.99")
        comparison = result["device_comparison"]
        self.assertEqual("STAY_ON_CPU", comparison["decision"])
        self.assertTrue(comparison["same_batches"])
        for side in comparison["baseline"], comparison["measured"]:
            self.assertGreater(side["step_seconds"]["median"], 0)
            self.assertGreater(side["loader_seconds"]["median"], 0)
            self.assertIsNone(side["utilization_ratio"])
        shown = daemon.ctl("show", result["job_id"])
        self.assertEqual(0, shown.returncode, shown.stderr)
        self.assertIn("Decision: stay on cpu", shown.stdout)

    def test_what_the_machine_lacks_is_said_at_the_start(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder, device="auto")
        for args in (("compare-devices", job), ("parity", job, "--against",
                                                "cpu")):
            result = daemon.ctl(*map(str, args))
            if result.returncode != FAILED_JOB:
                self.skipTest("this machine has an accelerator")
            self.assertIn("neither MPS nor CUDA",
                          result.stdout + result.stderr)

    def test_two_runs_are_equal_and_another_machine_finds_that_too(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        result = self.study(daemon, 0, "parity", job, "--against", "cpu",
                            "--steps", 5)
        parity = result["parity"]
        self.assertEqual(5, len(parity["steps"]))
        self.assertGreater(parity["tensors_compared"], 0)
        self.assertEqual(parity["tensors_compared"], parity["tensors_equal"])
        self.assertEqual(0, max(t["max_abs"] for t in parity["tensors"]))
        there = self.folder / "there.json"
        there.write_text(json.dumps(result))
        again = self.study(daemon, 0, "parity", job, "--against", there)
        self.assertEqual(again["parity"]["tensors_compared"],
                         again["parity"]["tensors_equal"])
        self.assertIn("there.json", again["parity"]["reference"])
        # The file that the worker wrote does as well.
        folder = self.download(daemon, result["job_id"])
        self.study(daemon, 0, "parity", job, "--against",
                   folder / "result.json")
        # Another seed is another run.
        other = harness.write_job(self.folder, "other.json",
                                  training={"seed": 7})
        found = self.findings(self.study(daemon, FAIL, "parity", other,
                                         "--against", there))
        self.assertEqual("FAIL", found["parity.start"]["verdict"])

    def test_recorded_losses_of_a_training(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        trained = daemon.submit(job)["id"]
        self.assertEqual("SUCCEEDED", daemon.finish(trained)["state"])
        metrics = self.download(daemon, trained, "--curves") / "metrics.jsonl"
        result = self.study(daemon, WARN, "parity", job, "--against", metrics)
        found = self.findings(result)
        self.assertEqual(["parity.dropout"],
                         [name for name, f in found.items()
                          if f["verdict"] != "PASS"])
        self.assertEqual(8, len(result["parity"]["steps"]))
        self.assertLess(max(s["loss_difference"]
                            for s in result["parity"]["steps"]), 1e-8)
        self.assertEqual("loss", result["parity"]["metric"])
        # One wrong figure, in Transformers' spelling.
        history = [{"step": entry["step"], "loss": round(entry["loss"], 4)}
                   for entry in map(json.loads,
                                    metrics.read_text().splitlines())]
        state = self.folder / "trainer_state.json"
        for wrong, code in (0, WARN), (0.02, FAIL):
            history[4]["loss"] += wrong
            state.write_text(json.dumps({"log_history": history}))
            result = self.study(daemon, code, "parity", job, "--against", state)
        self.assertIn("at step 5",
                      self.findings(result)["parity.loss"]["found"])

    def test_a_file_that_is_none_submits_nothing(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        (self.folder / "x.json").write_text("{}")
        result = daemon.ctl("parity", str(job), "--against",
                            str(self.folder / "x.json"))
        self.assertEqual(BAD_INPUT, result.returncode)
        self.assertEqual([], daemon.ctl_json("list"))
