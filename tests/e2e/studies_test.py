# SPDX-License-Identifier: Apache-2.0
"""A study by the real worker on the CPU: a sweep of batches, killed and resumed in
the middle, and the exit codes of a script."""

import os
import signal

import harness

# A sweep of seven batches, long enough to be disturbed.
ROWS = [harness.row(f"{i}+1?", str(i + 1)) for i in range(40)]
BATCHES = [1, 2, 4, 8, 16, 32, 40]
STEPS = 40
STEPS_EACH = STEPS + 2 + 3
MIDDLE = 2 * STEPS_EACH + 20  # within the third batch


class StudiesTest(harness.EndToEndTest):
    def job(self, name="tiny"):
        return harness.write_job(self.folder, rows=ROWS, called=name)

    def sweep(self, daemon):
        """Starts the sweep; its job."""
        queued, = daemon.ctl_json("check", "batch", self.job(),
                                  "--steps", STEPS, "--detach")
        return queued["id"]

    def check_sweep(self, daemon, watch, job_id, attempts):
        job = watch.finish()
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(attempts, job["attempt"])
        sweep = daemon.show(job_id)["result"]["batch_sweep"]
        self.assertEqual(BATCHES, [p["batch"] for p in sweep["points"]])
        self.assertTrue(all(p["fits"] for p in sweep["points"]))
        self.assertEqual(40, sweep["largest_batch"])
        self.assertEqual("rows", sweep["ended_by"])
        steps = watch.steps()
        # More where epochs end with a partial step, which is made up for.
        self.assertGreaterEqual(steps[-1], len(BATCHES) * STEPS_EACH)
        # The last event is the job itself.
        return [b for a, b in zip(steps, steps[1:-1]) if b <= a]

    def check_resumed(self, steps_after):
        # Two batches were measured: their steps were not made again. Fast steps
        # share an event, so the second attempt may show later ones alone.
        for step in steps_after:
            self.assertGreater(step, 2 * STEPS_EACH)

    def test_a_worker_killed_in_the_middle(self):
        daemon = self.daemon(*harness.slow_disk(250))
        job_id = self.sweep(daemon)
        with daemon.watch(job_id) as watch:
            watch.until_step(MIDDLE)
            os.kill(self.pause(daemon), signal.SIGKILL)
            self.check_resumed(self.check_sweep(daemon, watch, job_id, 2))

    def test_exit_codes_by_verdict(self):
        daemon = self.daemon(worker="fake_worker")
        for name, code in (("ok", 0), ("study-warn", 11), ("study-fail", 10)):
            ran = daemon.ctl("check", "smoke", self.job(name=f"fake:{name}"))
            self.assertEqual(code, ran.returncode, ran.stdout + ran.stderr)
        lost = daemon.ctl("check", "smoke", self.job(name="fake:study-no-result"))
        self.assertNotIn(lost.returncode, (0, 10, 11), lost.stdout)
