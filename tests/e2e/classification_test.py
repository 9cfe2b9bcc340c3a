# SPDX-License-Identifier: Apache-2.0
"""A classifier's life with the real worker, from a CSV to its predictions."""

import csv
import json
import shutil

import harness

ROWS = [("yes please", "good"), ("oh yes", "good"), ("yes", "good"),
        ("yes, fine", "good"), ("no thanks", "bad"), ("oh no", "bad"),
        ("no", "bad"), ("no, never", "bad")]
CONFIG = {
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
    (folder / "config.json").write_text(json.dumps(CONFIG))


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

    def test_a_bad_row_is_rejected_with_its_line(self):
        write_csv(self.folder / "data/train.csv", ("text", "mood"),
                  [*ROWS, ("no label", "")])
        job = self.mpsd.finish(self.mpsd.submit(self.job())["id"])
        self.assertEqual(("FAILED", "Rejected"),
                         (job["state"], job["exit_reason"]), job["message"])
        self.assertIn("data/train.csv:10", job["message"])
        self.assertNotIn(str(self.mpsd.state_dir), job["message"])

    def test_a_model_of_another_kind_queues_nothing(self):
        path = self.job()
        path.write_text(path.read_text().replace("SEQ_CLS", "IMAGE_CLS")
                        .replace('"text_columns": "text",', ""))
        before = self.mpsd.ctl_json("list")
        self.assertIn("SEQ_CLS", self.mpsd.says("submit", path, code=2))
        self.assertEqual(before, self.mpsd.ctl_json("list"))
