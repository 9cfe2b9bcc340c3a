# SPDX-License-Identifier: Apache-2.0
"""Steps that take longer than a worker may be silent: they are no hang, and a
daemon that stops need not wait for their end."""

import json
import math
import time

import harness

HANG = 5.0  # s, longer than a busy machine holds a worker up
STEP = 8.0  # s, about


class LivenessTest(harness.EndToEndTest):
    def write_job(self, rows, steps):
        """A job whose every step goes through all rows, one at a time."""
        return harness.write_job(
            self.folder, dataset={"train": ["train.jsonl"], "eval": []},
            rows=[harness.row(*m) for m in harness.MESSAGES] * (rows // 8),
            training={"max_steps": steps, "save_steps": 0,
                      "per_device_train_batch_size": 1,
                      "gradient_accumulation_steps": rows})

    def run_alone(self, path):
        """The seconds of the last step of the worker alone."""
        out = self.folder / "out"
        done = harness.run("mpsd-worker", "--job", path, "--out", out)
        self.assertEqual(0, done.returncode, done.stderr)
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return json.loads(lines[-1])["seconds"]

    def undisturbed(self, daemon):
        """A job of two steps, each longer than HANG, that ran to its end: its
        path and itself. The machine's speed swings, so the first guess may
        be too small."""
        rows = 320
        seconds = self.run_alone(self.write_job(rows, 2))
        for _ in range(5):
            rows = 8 * math.ceil(rows * STEP / seconds / 8)
            path = self.write_job(rows, 2)
            job = daemon.finish(daemon.submit(path)["id"])
            seconds = job["progress"]["step_seconds"]
            if seconds > HANG + 0.5:
                return path, job
        self.fail("no job was slow enough")

    def adapter(self, daemon, job):
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        folder = self.download(daemon, job["id"])
        return (folder / "adapter_model.safetensors").read_bytes()

    def test_a_slow_step_is_no_hang_and_can_be_stopped(self):
        daemon = self.daemon("--hang-timeout-seconds", str(HANG),
                             "--max-failures", "1")
        path, job = self.undisturbed(daemon)
        undisturbed = self.adapter(daemon, job)
        self.assertEqual(1, job["attempt"])
        seconds = job["progress"]["step_seconds"]

        job = daemon.submit(path)
        with daemon.watch(job["id"]) as watch:
            watch.until(lambda e: e.get("progress", {}).get("step") == 1)
            time.sleep(seconds / 8)
            self.assertEqual(0, daemon.terminate(), daemon.said())
            daemon.start()
            job = watch.finish()
        # Step 2 is the last: a worker that waited for its end would have
        # finished the job in its first attempt.
        self.assertEqual(2, job["attempt"])
        # The last is the job's own.
        self.assertEqual([1, 2, 2], watch.steps())
        self.assertEqual(undisturbed, self.adapter(daemon, job))
