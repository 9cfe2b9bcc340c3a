# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait for others and start from their results, the real programs killed
in between."""

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
