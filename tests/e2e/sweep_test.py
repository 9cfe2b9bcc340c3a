# SPDX-License-Identifier: Apache-2.0
"""Sweeps: ordinary jobs with one label, whose command may be repeated."""

import json
import unittest

import harness

# fake_worker's loss grows with the weight decay: the least decay is the best.
DECAYS = "training.weight_decay=0.2,0,0.1"


class SweepTest(harness.EndToEndTest):
    def job(self, name="fake:ok", **training):
        path = harness.write_job(self.folder, training=training)
        path.write_text(path.read_text().replace('"tiny"', f'"{name}"'))
        return str(path)

    def jobs(self, daemon, *args):
        listed = daemon.ctl("--json", "list", "--label", "sweep=decays", *args)
        self.assertEqual(0, listed.returncode, listed.stderr)
        return [json.loads(line) for line in listed.stdout.splitlines()]

    def test_a_grid_is_queued_ranked_and_reported(self):
        daemon = self.daemon(worker="fake_worker")
        args = ("sweep", self.job(max_steps=8), "--name", "decays", "--grid",
                DECAYS)
        queued = daemon.ctl(*args)
        self.assertEqual(0, queued.returncode, queued.stderr)
        self.assertIn("Sweep decays: 3 jobs\n", queued.stdout)
        daemon.ctl("wait", *(job["id"] for job in self.jobs(daemon)))
        ranked = self.jobs(daemon, "--sort", "eval_loss")
        self.assertEqual(["SUCCEEDED"] * 3, [job["state"] for job in ranked])
        self.assertEqual(
            ["0", "0.1", "0.2"],
            [job["labels"]["training.weight_decay"] for job in ranked])
        self.assertEqual("fake:ok weight_decay=0", ranked[0]["name"])
        page = self.folder / "sweep.html"
        reported = daemon.ctl("report", "--label", "sweep=decays", "-o",
                              str(page))
        self.assertEqual(0, reported.returncode, reported.stderr)
        self.assertIn("3 runs", reported.stdout)
        # The same command makes no other jobs; other values need a name.
        again = daemon.ctl(*args)
        self.assertIn("3 jobs, 3 of them from before", again.stdout)
        other = daemon.ctl(*args[:-1], "training.weight_decay=0.3")
        self.assertEqual(2, other.returncode, other.stdout)
        self.assertIn("needs a --name of its own", other.stderr)
        self.assertEqual(3, len(self.jobs(daemon)))
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_held_released_cancelled_and_deleted_by_its_label(self):
        daemon = self.daemon(worker="fake_worker",
                             env={"FAKE_WORKER_MODE": "ok-slow"})
        label = ("--label", "sweep=decays")
        made = daemon.ctl("sweep", self.job("slow", max_steps=2000), "--name",
                          "decays", "--hold", "--grid", DECAYS)
        self.assertEqual(0, made.returncode, made.stderr)
        other = daemon.ctl("submit", self.job("slow"), "--hold", "--detach")
        self.assertEqual(0, other.returncode, other.stderr)
        for verb, out in (("release", "is held no more"), ("hold", "is held"),
                          ("release", "is held no more"),
                          ("cancel", "cancelled")):
            changed = daemon.ctl(verb, *label)
            self.assertIn(out, changed.stdout.replace("CANCELLED", "cancelled"),
                          changed.stderr)
        daemon.ctl("wait", *(job["id"] for job in self.jobs(daemon)))
        self.assertEqual(["CANCELLED"] * 3,
                         [job["state"] for job in self.jobs(daemon)])
        deleted = daemon.ctl("delete", *label, "--yes")
        self.assertEqual(0, deleted.returncode, deleted.stderr)
        self.assertEqual([], self.jobs(daemon))
        left = daemon.ctl("list", "-q").stdout.split()
        self.assertEqual(1, len(left), left)
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_nothing_is_queued_where_one_job_is_refused(self):
        daemon = self.daemon(worker="fake_worker")
        for args, why in (
                (["--grid", "lora.r=4,-1"], "job 2 (r=-1)"),
                (["--grid", "lora.rank=4"], "lora.rank"),
                (["--grid", "a=" + ",".join(map(str, range(400))),
                  "b=" + ",".join(map(str, range(250)))],
                 "more than 500 combinations"),
                (["--grid", "name=a,b"], "named after its values")):
            refused = daemon.ctl("sweep", self.job(max_steps=8), *args)
            self.assertEqual(2, refused.returncode, refused.stderr)
            self.assertIn(why, refused.stderr)
        self.assertIn("No jobs", daemon.ctl("list").stdout)
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_the_same_seed_is_the_same_jobs(self):
        daemon = self.daemon(worker="fake_worker")
        specs = []
        for name in ("one", "two"):
            made = daemon.ctl(
                "--json", "sweep", self.job(), "--name", name, "--hold",
                "--random", "6", "training.learning_rate=log(1e-5,1e-3)",
                "training.weight_decay=uniform(0,0.1)", "--seed", "7")
            self.assertEqual(0, made.returncode, made.stderr)
            specs.append([json.loads(line)["name"]
                          for line in made.stdout.splitlines()])
        self.assertEqual(6, len(set(specs[0])))
        self.assertEqual(specs[0], specs[1])


if __name__ == "__main__":
    unittest.main()
