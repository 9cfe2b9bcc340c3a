# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait for others, start from their results, are cloned and compared,
the real programs killed in between; and sweeps: ordinary jobs with one label, whose
command may be repeated."""


import harness


class ChainTest(harness.EndToEndTest):
    def job(self, name="job.json", **changes):
        return harness.write_job(self.folder, name, **changes)

    def limited(self):
        """A daemon whose jobs may read only uploads and the model."""
        return self.daemon("--model-root", str(self.model))

    def test_an_adapter_starts_where_another_job_will_have_left_it(self):
        daemon = self.limited()
        first = daemon.submit(self.job(model=str(self.model)))["id"]
        chained = self.job("chained.json", model=str(self.model),
                           adapter=f"job:{first}", lora=None)
        second = daemon.submit(chained)
        self.assertEqual([first], second["after"])
        done = daemon.finish(second["id"])
        self.assertEqual("SUCCEEDED", done["state"], done)
        before = daemon.show(first)
        # Its first evaluation is the other's last one.
        self.assertAlmostEqual(before["eval_loss_after"],
                               done["eval_loss_before"], places=5)
        self.assertLess(done["eval_loss_after"], done["eval_loss_before"])
        self.assertEqual(before["output_path"], done["spec"]["adapter"])
        wrong = self.job("wrong.json", model=f"job:{first}")
        self.assertIn("makes an adapter and no whole model",
                      daemon.says("submit", wrong, code=2))

    def test_a_model_that_a_job_will_have_made_is_trained_further(self):
        daemon = self.limited()
        full = {"fine_tune_type": "full", "lora": None}
        first = daemon.submit(self.job(model=str(self.model), **full))["id"]
        second = daemon.submit(
            self.job("b.json", model=f"job:{first}", **full))["id"]
        third = daemon.submit(self.job("c.json", model=f"job:{second}"))
        self.assertEqual(f"job:{second}", third["model"])
        done = daemon.finish(third["id"])
        self.assertEqual("SUCCEEDED", done["state"], done)
        between = daemon.show(second)
        self.assertAlmostEqual(daemon.show(first)["eval_loss_after"],
                               between["eval_loss_before"], places=5)
        self.assertAlmostEqual(between["eval_loss_after"],
                               done["eval_loss_before"], places=5)
        wrong = self.job("wrong.json", model=str(self.model),
                         adapter=f"job:{first}", lora=None)
        self.assertIn("makes a whole model and no adapter",
                      daemon.says("submit", wrong, code=2))


class WaitingTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"
    job = ChainTest.job

    def test_mpsd_killed_while_jobs_wait(self):
        job = self.job()
        first = self.mpsd.submit(job, "--hold")["id"]
        second = self.mpsd.submit(job, "--after", first)["id"]
        third = self.mpsd.submit(job, "--after", first, "--after", second)["id"]
        for _ in range(3):
            self.assertIn(f"waits for job {first}",
                          self.mpsd.show(third)["hold"])
            self.mpsd.restart()
        self.mpsd.says("release", first)
        jobs = [self.mpsd.finish(i) for i in (first, second, third)]
        self.assertEqual(["SUCCEEDED"] * 3, [j["state"] for j in jobs])
        self.assertLessEqual(jobs[0]["end_time"], jobs[1]["start_time"])
        self.assertLessEqual(jobs[1]["end_time"], jobs[2]["start_time"])

    def test_a_failed_one_holds_with_its_reason(self):
        first = self.mpsd.submit(self.job(called="fake:rejected"))["id"]
        good = self.job("good.json")
        second = self.mpsd.submit(good, "--after", first)["id"]
        self.assertEqual("FAILED", self.mpsd.finish(first)["state"])
        self.mpsd.succeed(good)
        held = self.mpsd.show(second)
        self.assertTrue(held["held"])
        self.assertIn(f"job {first} is FAILED", held["hold"])
        self.mpsd.restart()
        self.assertEqual(held["hold"], self.mpsd.show(second)["hold"])
        queue, = self.mpsd.ctl_json("queue")
        self.assertIn(f"job {first} is FAILED", queue["entries"][0]["hold"])
        said = self.mpsd.says("submit", good, "--after", second, "--detach")
        self.assertIn(f"It waits for job {second}, which is QUEUED", said)

    def test_a_clone_differs_in_what_was_asked_for(self):
        path = self.job()
        first = self.mpsd.submit(path, "--label", "team=nlp")["id"]
        self.mpsd.finish(first)
        # Neither job.json nor the data are needed any more.
        for file in ("job.json", "train.jsonl", "eval.jsonl"):
            (self.folder / file).unlink()
        said = self.mpsd.says("clone", first, "--set",
                              "training.learning_rate=1e-4", "--name",
                              "slower", "--detach")
        self.assertRegex(said, r"training.learning_rate +0\.01 +0\.0001\n")
        second = self.mpsd.ctl_json("list")[0]
        self.assertEqual("slower", second["name"])
        self.assertEqual({"team": "nlp"}, second["labels"])
        second = self.mpsd.finish(second["id"])
        self.assertEqual("SUCCEEDED", second["state"])
        self.assertEqual(1e-4, second["spec"]["training"]["learning_rate"])
        self.assertEqual(0.01, self.mpsd.show(first)["spec"]["training"][
            "learning_rate"])
        compared, = self.mpsd.ctl_json("diff", first, second["id"])
        self.assertEqual({"name": ["tiny", "slower"],
                          "training.learning_rate": [0.01, 0.0001]},
                         compared["spec"])
        self.assertEqual({}, compared["data"])

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
