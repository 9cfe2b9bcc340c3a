# SPDX-License-Identifier: Apache-2.0
"""`mpsctl runbook` with the real daemon: the steps in a row, the page and its
final gate."""

import json
import unittest

import harness


class RunbookTest(harness.EndToEndTest):
    def run_it(self, daemon, *more):
        self.output = self.folder / "page"
        return daemon.ctl("runbook", str(harness.write_job(
            self.folder, training={"max_steps": 4})), "--output",
            str(self.output), *more)

    def page(self):
        return json.loads((self.output / "runbook.json").read_text())

    def test_five_steps_and_a_page(self):
        daemon = self.daemon("--model-root", str(self.folder),
                             worker="fake_worker")
        done = self.run_it(daemon, "--keep-going")
        page = self.page()
        self.assertIn(done.returncode, (0, 10, 11), done.stdout + done.stderr)
        self.assertEqual([], page["not_taken"], done.stdout + done.stderr)
        for step in ("doctor", "plan", "batch_sweep", "smoke", "parity"):
            self.assertIsNotNone(page[step], step)
        self.assertEqual(["proof.architecture", "proof.device",
                          "proof.batch_sweep", "proof.memory_curve"],
                         [proof["name"] for proof in page["proofs"]])
        html = (self.output / "runbook.html").read_text()
        self.assertIn("<svg", html)
        self.assertNotIn("<script", html)
        self.assertIn("Fit to promise", (self.output / "runbook.md").read_text())
        kinds = {job["kind"] for job in daemon.ctl_json("list")}
        self.assertEqual({"BATCH_SWEEP", "SMOKE", "PARITY"},
                         {kind.replace("JOB_KIND_", "") for kind in kinds})

    def test_nobody_is_there(self):
        daemon = self.daemon(worker="fake_worker")
        daemon.terminate()
        done = self.run_it(daemon)
        self.assertEqual(3, done.returncode, done.stdout + done.stderr)
        self.assertEqual(5, len(self.page()["not_taken"]))


if __name__ == "__main__":
    unittest.main()
