# SPDX-License-Identifier: Apache-2.0
"""Real runs as pages: what `mpsctl report` embeds is what the run left."""

import json
import os
import signal

import classification_test
import harness


def document(path):
    """The JSON that a page has in it."""
    text = path.read_text()
    begin = 'id="run-document">'
    at = text.index(begin) + len(begin)
    return json.loads(text[at:text.index("</script>", at)])


class ReportTest(harness.EndToEndTest):
    def report(self, daemon, *job_ids):
        path = self.folder / "report.html"
        result = daemon.ctl("report", *job_ids, "-o", str(path), "--force")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual("", result.stderr)
        self.assertLess(path.stat().st_size, 2_000_000)
        return document(path)["runs"]

    def test_a_run_with_a_restart(self):
        daemon = self.daemon(*harness.slow_disk(60))
        job = daemon.submit(harness.write_job(
            self.folder, training={"max_steps": 60, "save_steps": 10,
                                   "eval_steps": 20,
                                   "gradient_accumulation_steps": 8}))
        with daemon.watch(job["id"]) as watch:
            watch.until_checkpoint(20)
            worker = self.pause(daemon)
            running, = self.report(daemon, job["id"])
            os.kill(worker, signal.SIGKILL)
            watch.finish()
        run, = self.report(daemon, job["id"])
        self.check_running(running)
        self.check_succeeded(run)

    def check_running(self, run):
        self.assertEqual("JOB_STATE_RUNNING", run["job"]["state"])
        manifest = json.loads(run["files"]["run.json"])
        self.assertEqual("RUNNING", manifest["state"])
        self.assertIn("step 1/60", run["log"])

    def check_succeeded(self, run):
        self.assertEqual("JOB_STATE_SUCCEEDED", run["job"]["state"])
        self.assertEqual(2, run["job"]["attempt"])
        states = [e["state"]["state"] for e in run["events"] if "state" in e]
        self.assertEqual(2, states.count("JOB_STATE_RUNNING"))
        steps = [e["progress"] for e in run["events"] if "progress" in e]
        self.assertEqual("60", steps[-1]["step"])
        evaluated = [e["evaluated"].get("step", "0") for e in run["events"]
                     if "evaluated" in e]
        self.assertEqual("60", evaluated[-1])
        manifest = json.loads(run["files"]["run.json"])
        self.assertEqual("SUCCEEDED", manifest["state"])
        self.assertEqual(64, len(manifest["train"]["sha256"]))
        self.assertTrue(manifest["resumed_at_steps"])

    def test_a_classifier_beside_a_queued_job(self):
        classification_test.write_bert(self.folder / "bert")
        (self.folder / "data").mkdir()
        classification_test.write_csv(
            self.folder / "data/train.csv", ("text", "mood"),
            classification_test.ROWS)
        spec = {
            "model": "bert", "task": "SEQ_CLS", "fine_tune_type": "full",
            "from_scratch": True, "device": "cpu",
            "dataset": {"train": "data/train.csv", "eval": "data/train.csv",
                        "predict": "data/train.csv", "text_columns": "text",
                        "label_column": "mood"},
            "training": {"max_steps": 4, "max_length": 32}}
        path = self.folder / "classifier.json"
        path.write_text(json.dumps(spec))
        daemon = self.daemon()
        job = daemon.succeed(path)
        classifier, again = self.report(daemon, job["id"],
                                        daemon.submit(path)["id"])
        matrix = json.loads(classifier["job"]["confusion_matrix_json"])
        self.assertEqual(["bad", "good"], matrix["labels"])
        predictions = classifier["files"]["predictions.jsonl"].splitlines()
        self.assertEqual(len(classification_test.ROWS), len(predictions))
        self.assertIn(json.loads(predictions[0])["prediction"],
                      ("bad", "good"))
        self.assertNotEqual(classifier["job"]["id"], again["job"]["id"])
