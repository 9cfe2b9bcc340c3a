# SPDX-License-Identifier: Apache-2.0
"""Images of this machine, through the daemon, to a classifier of them: out of
a folder with a folder for each class, and as rows name them."""

import json

import harness

CONFIG = {
    "architectures": ["ViTForImageClassification"], "model_type": "vit",
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "image_size": 8, "patch_size": 4,
    "num_channels": 3, "qkv_bias": True, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12, "initializer_range": 0.02,
}
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor", "do_resize": True,
    "size": {"height": 8, "width": 8}, "resample": 2, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
}


class ImagesTest(harness.SharedDaemonTest):
    def setUp(self):
        super().setUp()
        model = self.folder / "vit"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(CONFIG))
        (model / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
        for i in range(4):
            shade = 255 - 30 * i
            harness.write_png(self.folder / f"fruit/apple/{i}.png",
                              (shade, 0, 0))
            harness.write_png(self.folder / f"fruit/lime/{i}.png",
                              (0, shade, 0))
        harness.write_png(self.folder / "new/a.png", (200, 10, 10))
        harness.write_png(self.folder / "new/b.png", (10, 200, 10))
        rows = self.folder / "jobs/rows"
        rows.mkdir(parents=True)
        (rows / "eval.jsonl").write_text("".join(
            json.dumps({"image": f"../../fruit/{name}/0.png", "label": name})
            + "\n" for name in ("apple", "lime")))

    def job(self, **dataset):
        spec = {
            "model": str(self.folder / "vit"), "task": "IMAGE_CLS",
            "fine_tune_type": "full", "from_scratch": True, "device": "cpu",
            "dataset": {"train": "../fruit", "eval": "rows/eval.jsonl",
                        "predict": "../new", **dataset},
            "training": {"max_steps": 30, "learning_rate": 0.01},
        }
        path = self.folder / "jobs/job.json"
        path.write_text(json.dumps(spec, indent=2))
        return path

    def test_a_folder_and_rows(self):
        job = self.mpsd.succeed(self.job())
        self.assertEqual(["apple", "lime"], job["confusion_matrix"]["labels"])
        self.assertIn("accuracy", job["metrics"])
        config = json.loads((self.download(self.mpsd, job["id"])
                             / "config.json").read_text())
        self.assertEqual({"0": "apple", "1": "lime"}, config["id2label"])
        table = self.folder / "new.tsv"
        self.mpsd.says("download", job["id"], "--predictions", "-o", table)
        self.assertEqual(3, len(table.read_text().splitlines()))

    def test_an_image_that_is_none_is_named(self):
        (self.folder / "fruit/lime/9.png").write_text("no image")
        job = self.mpsd.finish(self.mpsd.submit(self.job())["id"])
        self.assertEqual("Rejected", job["exit_reason"], job["message"])
        self.assertIn("lime/9.png", job["message"])

    def test_a_missing_image_queues_nothing(self):
        (self.folder / "fruit/lime/0.png").unlink()
        before = self.mpsd.ctl_json("list")
        self.assertIn("eval.jsonl:2",
                      self.mpsd.says("submit", self.job(), code=2))
        self.assertEqual(before, self.mpsd.ctl_json("list"))
