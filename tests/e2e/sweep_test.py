# SPDX-License-Identifier: Apache-2.0
"""Sweeps: ordinary jobs with one label, whose command may be repeated."""

import json

import harness

# fake_worker's loss grows with the weight decay: the least decay is the best.
DECAYS = "training.weight_decay=0.2,0,0.1"


class SweepTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def job(self, name="fake:ok", **training):
        return harness.write_job(self.folder, called=name, training=training)

    def jobs(self, daemon, *args):
        return daemon.ctl_json("list", "--label", "sweep=decays", *args)

    def test_a_grid_is_queued_ranked_and_reported(self):
        args = ("sweep", self.job(max_steps=8), "--name", "decays", "--grid",
                DECAYS)
        self.assertIn("Sweep decays: 3 jobs\n", self.mpsd.says(*args))
        self.mpsd.ctl("wait", *(job["id"] for job in self.jobs(self.mpsd)))
        ranked = self.jobs(self.mpsd, "--sort", "eval_loss")
        self.assertEqual(["SUCCEEDED"] * 3, [job["state"] for job in ranked])
        self.assertEqual(
            ["0", "0.1", "0.2"],
            [job["labels"]["training.weight_decay"] for job in ranked])
        self.assertEqual("fake:ok weight_decay=0", ranked[0]["name"])
        page = self.folder / "sweep.html"
        self.assertIn("3 runs", self.mpsd.says(
            "report", "--label", "sweep=decays", "-o", page))
        # The same command makes no other jobs; other values need a name.
        again = self.mpsd.ctl(*args)
        self.assertIn("3 jobs, 3 of them from before", again.stdout)
        other = self.mpsd.says(*args[:-1], "training.weight_decay=0.3", code=2)
        self.assertIn("needs another --name", other)
        self.assertEqual(3, len(self.jobs(self.mpsd)))

    def test_held_released_cancelled_and_deleted_by_its_label(self):
        daemon = self.daemon(worker="fake_worker",
                             env={"FAKE_WORKER_MODE": "ok-slow"})
        label = ("--label", "sweep=decays")
        daemon.says("sweep", self.job("slow", max_steps=2000), "--name",
                    "decays", "--hold", "--grid", DECAYS)
        daemon.says("submit", self.job("slow"), "--hold", "--detach")
        for verb, out in (("release", "is released"), ("hold", "is held"),
                          ("release", "is released"),
                          ("cancel", "cancelled")):
            changed = daemon.ctl(verb, *label)
            self.assertIn(out, changed.stdout.replace("CANCELLED", "cancelled"),
                          changed.stderr)
        daemon.ctl("wait", *(job["id"] for job in self.jobs(daemon)))
        self.assertEqual(["CANCELLED"] * 3,
                         [job["state"] for job in self.jobs(daemon)])
        daemon.says("delete", *label, "--yes")
        self.assertEqual([], self.jobs(daemon))
        left = daemon.ctl("list", "-q").stdout.split()
        self.assertEqual(1, len(left), left)

    def test_nothing_is_queued_where_one_job_is_refused(self):
        before = self.mpsd.ctl_json("list")
        for args, why in (
                (["--grid", "lora.r=4,-1"], "job 2 (r=-1)"),
                (["--grid", "lora.rank=4"], "lora.rank"),
                (["--grid", "a=" + ",".join(map(str, range(400))),
                  "b=" + ",".join(map(str, range(250)))],
                 "more than 500 combinations"),
                (["--grid", "name=a,b"], "named after its values")):
            self.assertIn(why, self.mpsd.says(
                "sweep", self.job(max_steps=8), *args, code=2))
        self.assertEqual(before, self.mpsd.ctl_json("list"))

    def test_the_same_seed_is_the_same_jobs(self):
        specs = []
        for name in ("one", "two"):
            made = self.mpsd.says(
                "--json", "sweep", self.job(), "--name", name, "--hold",
                "--random", "6", "training.learning_rate=log(1e-5,1e-3)",
                "training.weight_decay=uniform(0,0.1)", "--seed", "7")
            specs.append([json.loads(line)["name"]
                          for line in made.splitlines()])
        self.assertEqual(6, len(set(specs[0])))
        self.assertEqual(specs[0], specs[1])
