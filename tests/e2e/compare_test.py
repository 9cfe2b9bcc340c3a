# SPDX-License-Identifier: Apache-2.0
"""compare-devices: the real worker on two devices that every machine has, the CPU
and the CPU."""

import json

import harness

# client/console.h
FAILED_JOB, FAIL = 1, 10


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
        # Two runs of one device compute the same, bit for bit.
        self.assertGreaterEqual(len(comparison["losses"]), 3)
        for step in comparison["losses"]:
            self.assertEqual(step["baseline_loss"], step["loss"])
            self.assertEqual(0, step["difference_ratio"])
        self.assertEqual("loss", comparison["metric"])
        self.assertEqual(comparison["baseline_metric_value"],
                         comparison["metric_value"])
        found = self.findings(result)
        for name in "compare.loss", "compare.gradient", "compare.metric":
            self.assertEqual("PASS", found[name]["verdict"], name)
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
        result = daemon.ctl("compare-devices", str(job))
        if result.returncode != FAILED_JOB:
            self.skipTest("this machine has an accelerator")
        self.assertIn("neither MPS nor CUDA", result.stdout + result.stderr)
