# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait for others, go on from their results, are cloned and compared:
the real programs, killed in between."""

import json

import harness


class ChainTest(harness.EndToEndTest):
    def job(self, name="job.json", **changes):
        return harness.write_job(self.folder, name, **changes)

    def limited(self):
        """A daemon whose jobs may read the model alone, beside uploads."""
        return self.daemon("--model-root", str(self.model))

    def test_an_adapter_goes_on_where_another_job_will_have_left_it(self):
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

    def test_a_release_ends_the_wait_for_what_failed(self):
        job = self.job()
        other = self.mpsd.submit(job, "--hold")["id"]
        first = self.mpsd.submit(job, "--hold")["id"]
        second = self.mpsd.submit(job, "--after", first, "--after", other)["id"]
        self.mpsd.says("cancel", first)
        with self.mpsd.watch(second) as watch:
            watch.until(lambda e: "held" in e.get("note", ""))
            self.assertTrue(self.mpsd.show(second)["held"])
            self.mpsd.says("release", second)
            released = self.mpsd.show(second)
            self.assertEqual([other], released["after"])
            self.assertIn(f"waits for job {other}", released["hold"])
            self.mpsd.says("release", other)
            self.assertEqual("SUCCEEDED", watch.finish()["state"])
        self.assertEqual("SUCCEEDED", self.mpsd.state(other))

    def test_what_was_tried_again_is_waited_for(self):
        job = self.job()
        first = self.mpsd.submit(job, "--hold")["id"]
        chained = self.job("chained.json", adapter=f"job:{first}", lora=None)
        second = self.mpsd.submit(chained)["id"]
        self.mpsd.says("cancel", first)
        with self.mpsd.watch(second) as watch:
            watch.until(lambda e: "held" in e.get("note", ""))
            # It needs the result: released, it is held again.
            self.mpsd.says("release", second)
            watch.until(lambda e: "held: job" in e.get("note", ""))
            said = self.mpsd.says("delete", first, "--yes", code=2)
            self.assertIn(f"job {second}, which has not ended, uses files",
                          said)
            self.mpsd.says("retry", first)
            self.mpsd.says("release", second)
            watch.finish()
        self.assertEqual("SUCCEEDED", self.mpsd.state(first))
        done = self.mpsd.show(second)
        self.assertEqual(self.mpsd.show(first)["output_path"],
                         done["spec"]["adapter"])

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

    def test_a_clone_without_its_eval_set(self):
        first = self.mpsd.submit(self.job())["id"]
        clone, = self.mpsd.ctl_json("clone", first, "--unset", "dataset.eval",
                                    "--detach")
        self.assertEqual([], clone["spec"]["dataset"]["eval"])
        compared, = self.mpsd.ctl_json("diff", first, clone["id"])
        self.assertEqual({"inputs eval.jsonl", "input count"},
                         set(compared["data"]))
        self.assertIsNone(compared["data"]["inputs eval.jsonl"][1])

    def test_a_clone_of_a_job_whose_model_is_gone(self):
        first = self.mpsd.submit(self.job())["id"]
        self.mpsd.finish(first)
        self.model.rename(self.folder / "moved")
        said = self.mpsd.says("clone", first, code=2)
        self.assertIn("model", said)
        self.assertIn(str(self.model), said)
        clone, = self.mpsd.ctl_json(
            "clone", first, "--set", f"model={self.folder / 'moved'}",
            "--detach")
        self.assertEqual("SUCCEEDED", self.mpsd.finish(clone["id"])["state"])

    def test_the_request_survives_as_it_was_written(self):
        path = self.job()
        first = self.mpsd.submit(path)["id"]
        request, = self.mpsd.ctl_json("clone", first, "--dry-run")
        self.assertEqual({**json.loads(path.read_text()),
                          "model": str(self.model)}, request["spec"])
        self.mpsd.kill()
        (self.mpsd.state_dir / "jobs" / first / "request.json").unlink()
        self.mpsd.start()
        said = self.mpsd.says("clone", first, code=2)
        self.assertIn("kept no requests", said)
