# SPDX-License-Identifier: Apache-2.0
"""A job's life with the real worker: of a language model from submit to a folder
that PEFT could load, of a classifier of texts from a CSV to its predictions, and
of a classifier of images that lie in a folder for each class or that rows name."""

import csv
import hashlib
import json
import math
import shutil

import harness


class TrainingTest(harness.SharedDaemonTest):
    def test_from_submit_to_a_job_that_continues_the_adapter(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        said = daemon.says("submit", job, "--label", "team=nlp")
        self.assertIn("SUCCEEDED", said)
        self.assertIn("step 8/8", said)
        self.assertIn("eval loss", said)
        listed, = daemon.ctl_json("list", "--label", "team=nlp")
        shown = daemon.show(listed["id"])
        self.check_job(shown)
        adapter = self.download(daemon, shown["id"])
        self.check_tensors(adapter)
        self.check_metrics(daemon)
        self.check_files(daemon, shown["id"])
        self.check_merged(daemon, shown["id"], adapter)
        self.check_exports(daemon, shown["id"])
        second = daemon.succeed(harness.write_job(
            self.folder, adapter=adapter.name))
        self.assertAlmostEqual(shown["eval_loss_after"],
                               second["eval_loss_before"], places=4)

    def check_job(self, job):
        self.assertEqual("SUCCEEDED", job["state"])
        self.assertEqual("Done", job["exit_reason"])
        self.assertEqual(harness.ACCOUNT, job["owner"])
        self.assertEqual(1, job["attempt"])
        self.assertEqual(8, job["progress"]["step"])
        self.assertLess(job["eval_loss_after"], job["eval_loss_before"])
        self.assertTrue(math.isfinite(job["train_loss"]))
        self.assertGreater(job["progress"]["memory"]["footprint_bytes"], 0)
        self.assertEqual(42, job["spec"]["training"]["seed"])

    def check_tensors(self, folder):
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertEqual("LORA", config["peft_type"])
        self.assertEqual(4, config["r"])
        tensors = harness.safetensors(folder / "adapter_model.safetensors")
        # Two layers of seven linear modules, an A and a B each.
        self.assertEqual(28, len(tensors))
        for name, values in tensors.items():
            self.assertTrue(all(map(math.isfinite, values)), name)
            self.assertTrue(any(values), f"{name} has learnt nothing")

    def check_exports(self, daemon, job_id):
        out = self.folder / "exported"
        daemon.says("export", job_id, "--format", "mlx-adapter", "-o", out)
        self.assertEqual(
            {"adapters.safetensors", "adapter_config.json", "README.md"},
            {file.name for file in out.iterdir()})
        self.assertIn("\nlibrary_name: mlx\n", (out / "README.md").read_text())
        refused = daemon.ctl("export", job_id, "--format", "gguf", "-o",
                             self.folder / "gguf")
        self.assertIn(f"cannot export as gguf-q8_0: {self.model}: llama.cpp "
                      "cannot run it as it was trained: its tokenizer's "
                      "pre_tokenizer; export it as merged\n", refused.stderr)
        self.assertFalse((self.folder / "gguf").exists())

    def check_merged(self, daemon, job_id, adapter):
        """mpsd merges as `mpsctl merge` does where model and adapter are."""
        merged = self.download(daemon, job_id, "--merged")
        self.assertIn("\nlibrary_name: transformers\n",
                      (merged / "README.md").read_text())
        here = self.folder / "merged-here"
        daemon.says("merge", adapter, "--model", self.model, "--output", here)
        self.assertEqual(
            {file.name: file.read_bytes() for file in here.iterdir()},
            {file.name: file.read_bytes() for file in merged.iterdir()})
        self.eventually(lambda: not list(
            (daemon.state_dir / "merges").iterdir()))

    def check_metrics(self, daemon):
        self.assertEqual("cpu", daemon.ctl_json("info")[0]["device"])
        text = daemon.metrics()
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        self.assertEqual(1, samples['mpsd_jobs{state="succeeded"}'], text)
        self.assertEqual(8, samples['mpsd_step_seconds_count{device="cpu"}'])
        self.assertEqual(8, samples['mpsd_steps_total{device="cpu"}'])
        self.assertEqual(1, samples['mpsd_jobs_ended_total{state="succeeded"}'])
        self.assertEqual(0, samples["mpsd_queue_oldest_age_seconds"])
        self.assertGreater(samples['mpsd_tokens_total{device="cpu"}'], 0)
        for name in ('mpsd_rpc_requests_total{code="ok",'
                     'method="JobService.Submit"}',
                     'mpsd_rpc_seconds_count{method="JobService.Submit"}',
                     "mpsd_database_commit_seconds_count",
                     "mpsd_state_disk_free_bytes", "mpsd_state_disk_size_bytes",
                     'mpsd_state_bytes{kind="database"}'):
            self.assertGreater(samples[name], 0, name)
        self.assertRegex(text, r'mpsd_build_info\{commit="[0-9a-z-]+",.*'
                               r'torch="[0-9]+\.')
        for name in ("mpsd_job_loss", "mpsd_job_eval_loss",
                     "mpsd_job_learning_rate", "mpsd_job_grad_norm",
                     "mpsd_job_queue_wait_seconds", "mpsd_build_info",
                     "mpsd_worker_exits_total", "mpsd_job_info",
                     "mpsd_job_last_step_timestamp_seconds",
                     "process_resident_memory_bytes"):
            self.assertIn(f"# HELP {name} ", text)

    def check_files(self, daemon, job_id):
        steps = [c["step"] for c in daemon.ctl_json(
            "download", job_id, "--checkpoints")]
        self.assertEqual([4, 8], steps)
        folder = self.download(daemon, job_id, "--checkpoint", "4")
        self.assertTrue((folder / "adapter_model.safetensors").exists()
                        or any(folder.rglob("*.safetensors")),
                        sorted(folder.rglob("*")))
        self.assertNotEqual("", daemon.says("logs", job_id))
        daemon.says("download", job_id, "--checkpoint", "5", "--output",
                    self.folder / "none", code=4)
        folder = self.download(daemon, job_id, "--curves")
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(list(range(1, 9)),
                         [json.loads(line)["step"] for line in lines])
        self.assertTrue((folder / "eval.jsonl").exists())
        self.assertTrue((folder / "run.json").exists())
        events, = (folder / "runs").iterdir()
        self.assertIn(b"brain.Event:2", events.read_bytes())
        self.assertEqual(8, events.read_bytes().count(b"train/loss"))


ROWS = [("yes please", "good"), ("oh yes", "good"), ("yes", "good"),
        ("yes, fine", "good"), ("no thanks", "bad"), ("oh no", "bad"),
        ("no", "bad"), ("no, never", "bad")]
BERT = {
    "architectures": ["BertForSequenceClassification"], "model_type": "bert",
    "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": 3, "vocab_size": 99, "max_position_embeddings": 32,
    "type_vocab_size": 2, "pad_token_id": 0, "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12, "initializer_range": 0.02,
}
PIECES = {"begin": {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
          "a": {"Sequence": {"id": "A", "type_id": 0}},
          "end": {"SpecialToken": {"id": "<|im_end|>", "type_id": 0}},
          "b": {"Sequence": {"id": "B", "type_id": 1}},
          "end_of_b": {"SpecialToken": {"id": "<|im_end|>", "type_id": 1}}}


def special(token, number):
    return {"id": token, "ids": [number], "tokens": [token]}


def write_bert(folder):
    """The config of a BERT of 12k parameters without weights, and a tokenizer
    that frames a text or pair as BERT's do."""
    folder.mkdir()
    for file in (harness.ROOT / "tests/e2e/testdata").iterdir():
        shutil.copy(file, folder / file.name)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    single = [PIECES["begin"], PIECES["a"], PIECES["end"]]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": single,
        "pair": [*single, PIECES["b"], PIECES["end_of_b"]],
        "special_tokens": {
            "<|im_start|>": special("<|im_start|>", 1),
            "<|im_end|>": special("<|im_end|>", 2)}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(BERT))


def write_csv(path, header, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


class ClassificationTest(harness.SharedDaemonTest):
    def setUp(self):
        super().setUp()
        write_bert(self.folder / "bert")
        (self.folder / "data").mkdir()
        write_csv(self.folder / "data/train.csv", ("text", "mood"), ROWS)
        write_csv(self.folder / "data/new.csv", ("text",),
                  [("yes, yes",), ("no, no",), ("\"quoted\", no",)])

    def job(self, **training):
        spec = {
            "model": "bert", "task": "SEQ_CLS", "fine_tune_type": "full",
            "from_scratch": True, "device": "cpu",
            "dataset": {"train": "data/train.csv", "eval": "data/train.csv",
                        "predict": "data/new.csv", "text_columns": "text",
                        "label_column": "mood"},
            "training": {"max_steps": 40, "learning_rate": 0.01,
                         "max_length": 32, "eval_steps": 20,
                         "load_best_model_at_end": True,
                         "metric_for_best_model": "accuracy", **training},
        }
        path = self.folder / "job.json"
        path.write_text(json.dumps(spec, indent=2))
        return path

    def test_from_a_csv_to_predictions(self):
        job = self.mpsd.succeed(self.job())
        self.assertEqual("MODEL", job["output_kind"])
        self.assertLess(job["eval_loss_after"], job["eval_loss_before"])
        self.check_shown(job["id"])
        self.assertIn('mpsd_job_eval_metric{device="cpu",job_id="%s",'
                      'metric="accuracy"}' % job["id"], self.mpsd.metrics())
        self.check_model(self.download(self.mpsd, job["id"]))
        self.check_predictions(self.download(self.mpsd, job["id"],
                                             "--predictions"))

    def check_shown(self, job_id):
        job = self.mpsd.show(job_id)
        self.assertEqual({"accuracy", "f1", "f1_macro",
                          "matthews_correlation"}, set(job["metrics"]))
        self.assertGreaterEqual(job["metrics"]["accuracy"], 0.5)
        best = job["best_evaluation"]
        self.assertIn(best["step"], (20, 40))
        self.assertGreaterEqual(best["metrics"]["accuracy"],
                                job["metrics"]["accuracy"])
        matrix = job["confusion_matrix"]
        self.assertEqual(["bad", "good"], matrix["labels"])
        self.assertEqual([4, 4], [sum(row) for row in matrix["matrix"]])
        text = self.mpsd.ctl("show", job_id).stdout
        for part in ("accuracy", "true \\ predicted", "--predictions"):
            self.assertIn(part, text)

    def check_model(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual({"0": "bad", "1": "good"}, config["id2label"])
        tensors = harness.safetensors(folder / "model.safetensors")
        self.assertEqual(2, len(tensors["classifier.bias"]))

    def check_predictions(self, folder):
        self.assertEqual({"predictions.jsonl", "predictions.tsv",
                          "confusion_matrix.json"},
                         {file.name for file in folder.iterdir()
                          if not file.name.startswith(".")})
        lines = (folder / "predictions.jsonl").read_text().splitlines()
        self.assertEqual(3, len(lines))
        for line in lines:
            self.assertIn(json.loads(line)["prediction"], ("bad", "good"))

VIT = {
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


def write_vit(folder):
    """The configs of a tiny vision transformer, without weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(VIT))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))


class ImagesTest(harness.SharedDaemonTest):
    def setUp(self):
        super().setUp()
        write_vit(self.folder / "vit")
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

    def test_rows_name_no_file_of_the_state_folder(self):
        held = self.mpsd.submit(self.job(), "--hold")  # uploads the images
        self.mpsd.says("cancel", held["id"])
        sha256 = hashlib.sha256(
            (self.folder / "fruit/apple/0.png").read_bytes()).hexdigest()
        said = set()
        for name in (sha256, sha256[:2] + "0" * 62):
            path = self.mpsd.state_dir / "blobs" / name[:2] / name
            self.assertEqual(name == sha256, path.exists())
            (self.folder / "jobs/rows/train.jsonl").write_text(
                json.dumps({"image": str(path), "label": "apple"}) + "\n")
            text = self.mpsd.says("submit", self.job(train="rows/train.jsonl"),
                                  code=2)
            said.add(text.partition(" was refused: ")[2].replace(
                name, "SHA256"))
        self.assertEqual(1, len(said), said)
        self.assertIn("outside the folders that jobs may read", said.pop())
