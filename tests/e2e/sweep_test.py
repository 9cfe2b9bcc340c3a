# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many jobs as one, thinned out at their rungs, whatever is killed."""

import json
import signal
import time
import unittest
import xml.etree.ElementTree

import harness

# fake_worker's loss grows with the weight decay: the first child is the best.
DECAYS = "training.weight_decay=0,0.1,0.2,0.3"
# A step takes 20 ms. By the environment: children have names of their own.
SLOW = {"FAKE_WORKER_MODE": "ok-slow"}


class SweepTest(harness.EndToEndTest):
    def job(self, name="fake:ok", **training):
        path = harness.write_job(self.folder, training=training)
        path.write_text(path.read_text().replace('"tiny"', f'"{name}"'))
        return path

    def sweep(self, daemon, *args, job=None):
        made = daemon.ctl("--json", "sweep", str(job or self.job()), *args)
        self.assertEqual(0, made.returncode, made.stderr)
        return json.loads(made.stdout)

    def show(self, daemon, sweep):
        shown = daemon.ctl("--json", "sweep", "show", sweep["id"])
        self.assertEqual(0, shown.returncode, shown.stderr)
        return json.loads(shown.stdout)

    def finish(self, daemon, sweep):
        deadline = time.monotonic() + harness.TIMEOUT
        while True:
            shown = self.show(daemon, sweep)
            if not shown["queued"] and not shown["running"]:
                return shown
            self.assertLess(time.monotonic(), deadline, shown)
            time.sleep(0.05)

    def states(self, sweep):
        """In the order in which the children were made."""
        children = sorted(sweep["children"], key=lambda c: c["position"])
        return "".join(c["state"][0] for c in children)

    def test_a_grid_is_made_followed_ranked_and_drawn(self):
        daemon = self.daemon(worker="fake_worker")
        svg, csv = self.folder / "s.svg", self.folder / "s.csv"
        followed = daemon.ctl(
            "sweep", str(self.job(max_steps=8)), "--grid",
            "training.weight_decay=0.2,0.1", "lora.r=4,8", "--eta", "2",
            "--svg", str(svg), "--csv", str(csv))
        self.assertEqual(0, followed.returncode, followed.stderr)
        self.assertIn("4/4 done, loss 0.6", followed.stdout)
        self.assertIn("ended by its sweep at step 2", followed.stdout)
        root = xml.etree.ElementTree.parse(svg).getroot()
        self.assertEqual("{http://www.w3.org/2000/svg}svg", root.tag)
        self.assertEqual(5, len(csv.read_text().splitlines()))
        listed = daemon.ctl("sweep", "list").stdout
        self.assertIn("weight_decay r", listed)
        # One row of a list, or four.
        rows = daemon.ctl("list").stdout.splitlines()
        self.assertEqual(2, len(rows), rows)
        self.assertIn("(sweep: 4/4 done, loss 0.6)", rows[1])
        self.assertEqual(
            5, len(daemon.ctl("list", "--children").stdout.splitlines()))
        best = json.loads(
            daemon.ctl("--json", "sweep", "list").stdout)["best_job_id"]
        job = daemon.show(best)
        self.assertEqual("fake:ok weight_decay=0.1 r=4", job["name"])
        self.assertEqual("0.1", job["labels"]["training.weight_decay"])
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_nothing_is_queued_where_one_child_is_refused(self):
        daemon = self.daemon(worker="fake_worker")
        for args, why in (
                (["--grid", "lora.r=4,-1"], "child 2 (r=-1)"),
                (["--grid", "lora.rank=4"], "lora.rank"),
                (["--grid", "a=" + ",".join(map(str, range(400))),
                  "b=" + ",".join(map(str, range(250)))],
                 "has 100000 combinations, at most 500"),
                (["--grid", "lora.r=4,8", "--eta", "2", "--rungs", "99"],
                 "step 99 does not come before"),
                (["--grid", "name=a,b"], "mpsd names the children")):
            refused = daemon.ctl("sweep", str(self.job(max_steps=8)), *args)
            self.assertEqual(2, refused.returncode, refused.stderr)
            self.assertIn(why, refused.stderr)
        self.assertIn("No jobs", daemon.ctl("list").stdout)
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_the_same_seed_is_the_same_children(self):
        daemon = self.daemon(worker="fake_worker")
        args = ("--random", "6", "training.learning_rate=log(1e-5,1e-3)",
                "training.weight_decay=uniform(0,0.1)", "--seed", "7",
                "--detach")
        first, second = (self.sweep(daemon, *args) for _ in range(2))
        self.assertNotEqual(first["id"], second["id"])
        self.assertEqual([c["values"] for c in first["children"]],
                         [c["values"] for c in second["children"]])

    def test_cancelled_as_one(self):
        daemon = self.daemon(worker="fake_worker", env=SLOW)
        sweep = self.sweep(daemon, "--grid", DECAYS, "--detach",
                           job=self.job("slow", max_steps=2000))
        cancelled = daemon.ctl("cancel", sweep["id"])
        self.assertEqual(0, cancelled.returncode, cancelled.stderr)
        for child in sweep["children"]:
            daemon.ctl("cancel", "--now", child["job_id"])
        self.assertEqual("CCCC", self.states(self.finish(daemon, sweep)))

    def test_killed_in_the_middle_the_best_one_wins(self):
        daemon = self.daemon(worker="fake_worker", env=SLOW)
        sweep = self.sweep(daemon, "--grid", DECAYS, "--eta", "2", "--detach",
                           job=self.job("slow", max_steps=160))
        self.assertEqual([40, 80], [int(r) for r in sweep["rungs"]])
        kills = 0
        deadline = time.monotonic() + harness.TIMEOUT
        while kills < 12 and time.monotonic() < deadline:
            shown = self.show(daemon, sweep)
            if set(self.states(shown)) <= set("SFC"):
                break
            time.sleep(0.25)
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            kills += 1
            daemon.start()
        done = self.finish(daemon, sweep)
        self.assertEqual("SCCC", self.states(done), done)
        self.assertGreaterEqual(kills, 3)
        self.assertEqual(2, done["rungs_decided"])
        for child in done["children"][1:]:
            self.assertIn("ended by its sweep", child["message"])
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_a_survivor_is_bit_for_bit_the_run_alone(self):
        daemon = self.daemon()
        path = harness.write_job(self.folder)
        sweep = self.sweep(
            daemon, "--grid", "training.learning_rate=0.02,0.00001",
            "--eta", "2", job=path)
        best = daemon.show(sweep["best_job_id"])
        self.assertEqual("SUCCEEDED", best["state"], best["message"])
        self.assertEqual(2, best["attempt"], "it was resumed at its rung")
        alone = daemon.ctl("--json", "clone", best["id"])
        self.assertEqual(0, alone.returncode, alone.stderr)
        jobs = [json.loads(line) for line in daemon.ctl(
            "--json", "list", "--all").stdout.splitlines()]
        clone = next(job for job in jobs if not job["sweep_id"])
        self.assertEqual(("SUCCEEDED", 1), (clone["state"], clone["attempt"]))
        one, other = (
            self.download(daemon, job["id"]) / "adapter_model.safetensors"
            for job in (best, clone))
        self.assertEqual(one.read_bytes(), other.read_bytes())
        lost = next(c for c in sweep["children"]
                    if c["job_id"] != best["id"])
        self.assertEqual("CANCELLED", lost["state"])
        self.assertEqual(4, lost["step"])
        self.assertEqual(0, daemon.terminate(), daemon.said())


if __name__ == "__main__":
    unittest.main()
