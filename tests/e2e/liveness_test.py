# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than a worker may be silent: they are no hang, and a
daemon that stops need not wait for their end."""

import json
import math
import subprocess
import time
import unittest

import harness

HANG = 2.5  # s
STEP = 4.0  # s, about


class LivenessTest(harness.EndToEndTest):
    def write_job(self, rows, steps):
        """A job whose every step goes through all rows, one at a time."""
        return harness.write_job(
            self.folder, dataset={"train": ["train.jsonl"], "eval": []},
            rows=[harness.row(*m) for m in harness.MESSAGES] * (rows // 8),
            training={"max_steps": steps, "save_steps": 0,
                      "per_device_train_batch_size": 1,
                      "gradient_accumulation_steps": rows})

    def slow_job(self):
        """Two steps of so many rows that each takes STEP on this machine."""
        rows = 320
        done = subprocess.run(
            [str(harness.BIN / "mpsd-worker"), "--job",
             str(self.write_job(rows, 1)), "--out", str(self.folder / "out")],
            capture_output=True, text=True, env=harness.environment(),
            timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        step = json.loads((self.folder / "out/metrics.jsonl").read_text())
        return self.write_job(
            8 * math.ceil(rows * STEP / step["seconds"] / 8), 2)

    def adapter(self, daemon, job):
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        folder = self.download(daemon, job["id"])
        return (folder / "adapter_model.safetensors").read_bytes()

    def test_a_slow_step_is_no_hang_and_can_be_stopped(self):
        path = self.slow_job()
        daemon = self.daemon("--hang-timeout-seconds", str(HANG),
                             "--max-failures", "1")
        job = daemon.finish(daemon.submit(path)["id"])
        undisturbed = self.adapter(daemon, job)
        self.assertEqual(1, job["attempt"])
        seconds = job["progress"]["step_seconds"]
        self.assertGreater(seconds, HANG + 0.5, "nothing was put to the test")

        job = daemon.submit(path)
        with daemon.watch(job["id"]) as watch:
            watch.until(lambda e: e.get("progress", {}).get("step") == 1)
            time.sleep(seconds / 8)
            asked = time.monotonic()
            self.assertEqual(0, daemon.terminate(), daemon.said())
            self.assertLess(time.monotonic() - asked, 0.6 * seconds,
                            "it waited for the end of the step")
            daemon.start()
            job = watch.finish()
        self.assertEqual(2, job["attempt"])
        # The last is the job's own.
        self.assertEqual([1, 2, 2], watch.steps())
        self.assertEqual(undisturbed, self.adapter(daemon, job))


if __name__ == "__main__":
    unittest.main()
