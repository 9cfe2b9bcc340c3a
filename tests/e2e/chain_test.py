# SPDX-License-Identifier: Apache-2.0
"""Jobs that start from the results of others, by the real programs."""

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
