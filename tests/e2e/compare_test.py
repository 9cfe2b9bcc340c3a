# SPDX-License-Identifier: Apache-2.0
"""compare-devices: the real worker on two devices that every machine has, the CPU
and the CPU."""

import json

import harness

# client/console.h
FAILED_JOB, FAIL = 1, 10


class CompareTest(harness.SharedDaemonTest):
    def test_the_cpu_is_compared_with_itself(self):
        job = harness.write_job(self.folder)
        # Nothing is shorter than itself by 99 %.
        ran = self.mpsd.ctl(
            "--json", "compare-devices", job, "--devices", "cpu,cpu", "--steps",
            3, "--threshold", "compare.speedup=0.99")
        self.assertEqual(FAIL, ran.returncode, ran.stdout + ran.stderr)
        result = json.loads(ran.stdout)
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
        found = {f["name"]: f for f in result["findings"]}
        for name in "compare.loss", "compare.gradient", "compare.metric":
            self.assertEqual("PASS", found[name]["verdict"], name)
        for side in comparison["baseline"], comparison["measured"]:
            self.assertGreater(side["step_seconds"]["median"], 0)
            self.assertGreater(side["loader_seconds"]["median"], 0)
            self.assertIsNone(side["utilization_ratio"])
        shown = self.mpsd.says("show", result["job_id"])
        self.assertIn("Decision: stay on cpu", shown)

    def test_what_the_machine_lacks_is_said_at_the_start(self):
        job = harness.write_job(self.folder, device="auto")
        result = self.mpsd.ctl("compare-devices", str(job))
        if result.returncode != FAILED_JOB:
            self.skipTest("this machine has an accelerator")
        self.assertIn("neither MPS nor CUDA", result.stdout + result.stderr)
