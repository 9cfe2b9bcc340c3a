# SPDX-License-Identifier: Apache-2.0
"""`mpsctl check profile` with the real worker: its result and trace, a job that was
there before, and an end in the middle."""

import gzip
import json

import harness

WARM_UP, STEPS = 3, 12


class ProfileTest(harness.SharedDaemonTest):
    def setUp(self):
        super().setUp()
        # Steps long enough to be timed.
        rows = [harness.row(f"{question} " * 6, f"{answer} " * 6)
                for question, answer in harness.MESSAGES * 8]
        self.job = harness.write_job(
            self.folder, rows=rows,
            training={"per_device_train_batch_size": 16, "max_length": 64})

    def profile(self, what, *options):
        """The result of a profile that has a verdict."""
        done = self.mpsd.ctl(
            "--json", "check", "profile", str(what), "--steps", str(STEPS),
            "--warmup-steps", str(WARM_UP), *options)
        # A busy machine may explain a warning, never a failure.
        self.assertIn(done.returncode, (0, 11), done.stderr)
        result, = [json.loads(line) for line in done.stdout.splitlines()]
        verdict = "WARN" if done.returncode else "PASS"
        self.assertEqual(verdict, result["verdict"])
        return result

    def test_result_and_trace(self):
        path = self.folder / "slow.json.gz"
        result = self.profile(self.job, "--trace", str(path))
        profile = result["profile"]
        self.assertEqual("cpu", profile["device"])
        self.assertEqual("explicit", profile["gradients"])
        self.assertEqual(
            [WARM_UP, 6, STEPS],
            [profile["steps"][k] for k in ("warm_up", "plain", "profiled")])
        self.check_trace(path, profile["trace"])
        self.assertEqual(["data", "forward", "step"],
                         sorted(c["name"] for c in profile["captures"]))
        found = {f["name"]: f for f in result["findings"]}
        for name in ("profile.blocking", "profile.fallback"):
            self.assertEqual("PASS", found[name]["verdict"], name)
        self.check_shown(result)

    def check_trace(self, path, trace):
        self.assertEqual(path.stat().st_size, int(trace["size_bytes"]))
        self.assertLess(path.stat().st_size, 256 << 20)
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        spans = [e for e in events if e.get("ph") == "X"]
        for span in spans:
            self.assertGreaterEqual(float(span["dur"]), 0)
            self.assertGreater(float(span["ts"]), 0)
        names = [span["name"] for span in spans]
        self.assertEqual(trace["steps"], names.count("mpsd::step"))
        for name in ("mpsd::layer 0", "mpsd::attention backward", "aten::mm",
                     "mpsd::optimizer"):
            self.assertIn(name, names)

    def check_shown(self, result):
        shown = self.mpsd.says("show", result["job_id"])
        self.assertIn("attention", shown)
        self.assertIn("profile.blocking", shown)

    def test_a_job_that_was_there_before(self):
        trained = self.mpsd.succeed(self.job)
        (self.folder / "train.jsonl").unlink()  # the daemon has it
        result = self.profile(trained["id"], "--threshold",
                              "profile.data_share=0")
        found = {f["name"]: f for f in result["findings"]}
        self.assertEqual(0, found["profile.data"]["threshold"])
        shown = self.mpsd.show(result["job_id"])
        self.assertEqual("SUCCEEDED", shown["state"])
        # Nothing of the training is kept: neither adapter nor checkpoint.
        names = {p.name for p in self.mpsd.state_dir.rglob("*")
                 if result["job_id"] in str(p)}
        self.assertIn("result.json", names)
        self.assertFalse({n for n in names if n.startswith(
            ("adapter", "step-", "metrics", "profiled"))}, names)

    def test_a_cancel_in_the_middle(self):
        with self.mpsd.begin("check", "profile", self.job, "--steps",
                             "1000") as follower:
            self.addCleanup(follower.kill)
            first = follower.stdout.readline()
            self.assertIn(" submitted: ", first)
            job_id = first.split()[1]
            with self.mpsd.watch(job_id) as watch:
                # Within a session of the profiler.
                watch.until_step(14)
                self.assertEqual(0, self.mpsd.ctl("cancel", job_id).returncode)
                self.assertEqual("CANCELLED", watch.finish()["state"])
            said = follower.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(5, follower.returncode, said)
        self.assertNotIn("result", self.mpsd.show(job_id))
        self.assertFalse([p for p in self.mpsd.state_dir.rglob("trace*")
                          if job_id in str(p)])
