# SPDX-License-Identifier: Apache-2.0
"""A job's life with the real worker, from submit to a folder that PEFT could
load."""

import json
import math
import subprocess
import unittest
import urllib.request

import harness


class TrainingTest(harness.EndToEndTest):
    def test_submit_watch_download(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        result = daemon.ctl("submit", str(job), "--label", "team=nlp")
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        self.assertIn("SUCCEEDED", result.stdout)
        self.assertIn("step 8/8", result.stdout)
        self.assertIn("eval loss", result.stdout)
        listed, = daemon.ctl_json("list", "--label", "team=nlp")
        shown = daemon.show(listed["id"])
        self.check_job(shown)
        self.check_adapter(self.download(daemon, shown["id"]))
        self.check_metrics(daemon)

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

    def check_adapter(self, folder):
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertEqual("LORA", config["peft_type"])
        self.assertEqual(4, config["r"])
        tensors = harness.safetensors(folder / "adapter_model.safetensors")
        # Two layers of seven linear modules, an A and a B each.
        self.assertEqual(28, len(tensors))
        for name, values in tensors.items():
            self.assertTrue(all(map(math.isfinite, values)), name)
            self.assertTrue(any(values), f"{name} has learnt nothing")

    def check_metrics(self, daemon):
        info, = daemon.ctl_json("info")
        self.assertEqual("cpu", info["device"])
        url = f"http://{info['metrics_address']}/metrics"
        with urllib.request.urlopen(url, timeout=harness.TIMEOUT) as answer:
            text = answer.read().decode()
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

    def test_a_result_names_the_id_of_its_model(self):
        home = self.folder / "hf"
        repository = home / "hub/models--me--tiny"
        harness.write_model(repository / "snapshots/abc123")
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text("abc123")
        daemon = self.daemon(env={"HF_HOME": str(home)})
        job = harness.write_job(self.folder, model="me/tiny")
        job = daemon.submit(job)
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        folder = self.download(daemon, job["id"])
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertEqual("me/tiny", config["base_model_name_or_path"])
        self.assertEqual("abc123", config["revision"])
        merged = subprocess.run(
            [harness.BIN / "mpsctl", "merge", folder, "-o",
             self.folder / "merged"],
            env=harness.environment(HF_HOME=str(home)), capture_output=True,
            text=True, timeout=harness.TIMEOUT)
        self.assertEqual(0, merged.returncode, merged.stderr)

    def test_checkpoints_and_logs(self):
        daemon = self.daemon()
        job = daemon.submit(harness.write_job(self.folder))
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        steps = [c["step"] for c in daemon.ctl_json("checkpoints", job["id"])]
        self.assertEqual([4, 8], steps)
        folder = self.download(daemon, job["id"], "--checkpoint", "4")
        self.assertTrue((folder / "adapter_model.safetensors").exists()
                        or any(folder.rglob("*.safetensors")),
                        sorted(folder.rglob("*")))
        self.assertNotEqual("", daemon.ctl("logs", job["id"]).stdout)
        missing = daemon.ctl("download", job["id"], "--checkpoint", "5",
                             "--output", str(self.folder / "none"))
        self.assertEqual(4, missing.returncode, missing.stderr)

    def test_curves(self):
        daemon = self.daemon()
        job = daemon.submit(harness.write_job(self.folder))
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        folder = self.download(daemon, job["id"], "--curves")
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(list(range(1, 9)),
                         [json.loads(line)["step"] for line in lines])
        self.assertTrue((folder / "eval.jsonl").exists())
        self.assertTrue((folder / "run.json").exists())
        events, = (folder / "runs").iterdir()
        self.assertIn(b"brain.Event:2", events.read_bytes())
        self.assertEqual(8, events.read_bytes().count(b"train/loss"))

    def test_idempotency_key(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        first = daemon.submit(job, "--idempotency-key", "k")
        again = daemon.submit(job, "--idempotency-key", "k")
        self.assertEqual(first["id"], again["id"])
        other = harness.write_job(self.folder, training={"seed": 7})
        refused = daemon.ctl("submit", str(other), "--detach",
                             "--idempotency-key", "k")
        self.assertEqual(2, refused.returncode, refused.stderr)
        self.assertIn("key", refused.stderr)
        self.assertEqual(1, len(daemon.ctl_json("list")))

    def test_bad_spec_queues_nothing(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder)
        job.write_text(job.read_text().replace("learning_rate",
                                               "learning_rat"))
        line = next(n for n, text in enumerate(job.read_text().splitlines(), 1)
                    if "learning_rat" in text)
        refused = daemon.ctl("submit", str(job))
        self.assertEqual(2, refused.returncode)
        for part in (f"job.json:{line}", "training.learning_rat",
                     "learning_rate"):
            self.assertIn(part, refused.stderr)
        self.assertEqual([], daemon.ctl_json("list"))

    def test_bad_row_is_rejected(self):
        daemon = self.daemon()
        rows = [harness.row("a", "b"), harness.row("c", "d"),
                '{"mesages": []}']
        job = harness.write_job(self.folder, rows=rows)
        result = daemon.ctl("submit", str(job))
        self.assertEqual(1, result.returncode, result.stderr)
        job, = daemon.ctl_json("list")
        job = daemon.show(job["id"])
        self.assertEqual("FAILED", job["state"])
        self.assertEqual("Rejected", job["exit_reason"])
        self.assertEqual(1, job["attempt"], "a user's error is not retried")
        self.assertIn("train.jsonl:3", job["message"])
        self.assertNotIn(str(daemon.state_dir), job["message"])

    def test_unknown_model(self):
        daemon = self.daemon()
        job = harness.write_job(self.folder, model="nobody/nothing")
        refused = daemon.ctl("submit", str(job), "--detach")
        self.assertEqual(2, refused.returncode)
        self.assertIn("nobody/nothing", refused.stderr)

    def test_continues_an_adapter(self):
        daemon = self.daemon()
        first = daemon.submit(harness.write_job(self.folder))
        self.assertEqual("SUCCEEDED", daemon.finish(first["id"])["state"])
        start = self.download(daemon, first["id"])
        second = daemon.submit(harness.write_job(
            self.folder, adapter=start.name))
        ended = daemon.finish(second["id"])
        self.assertEqual("SUCCEEDED", ended["state"], ended["message"])
        before = daemon.show(first["id"])["eval_loss_after"]
        self.assertAlmostEqual(before, ended["eval_loss_before"], places=4)


if __name__ == "__main__":
    unittest.main()
