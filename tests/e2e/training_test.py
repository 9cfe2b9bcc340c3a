# SPDX-License-Identifier: Apache-2.0
"""A job's life with the real worker, from submit to a folder that PEFT could
load."""

import json
import math

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

    def test_a_result_names_the_id_of_its_model(self):
        home = self.folder / "hf"
        repository = home / "hub/models--me--tiny"
        harness.write_model(repository / "snapshots/abc123")
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text("abc123")
        daemon = self.daemon(env={"HF_HOME": str(home)})
        job = harness.write_job(self.folder, model="me/tiny")
        job = daemon.succeed(job)
        folder = self.download(daemon, job["id"])
        config = json.loads((folder / "adapter_config.json").read_text())
        self.assertEqual("me/tiny", config["base_model_name_or_path"])
        self.assertEqual("abc123", config["revision"])
        merged = harness.run("mpsctl", "merge", folder, "-o",
                             self.folder / "merged",
                             env=harness.environment(HF_HOME=str(home)))
        self.assertEqual(0, merged.returncode, merged.stderr)

    def check_files(self, daemon, job_id):
        steps = [c["step"] for c in daemon.ctl_json("checkpoints", job_id)]
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

    def test_idempotency_key(self):
        job = harness.write_job(self.folder)
        first = self.mpsd.submit(job, "--idempotency-key", "k")
        again = self.mpsd.submit(job, "--idempotency-key", "k")
        self.assertEqual(first["id"], again["id"])
        other = harness.write_job(self.folder, training={"seed": 7})
        said = self.mpsd.says("submit", other, "--detach",
                              "--idempotency-key", "k", code=2)
        self.assertIn("key", said)
        self.assertEqual(first["id"], self.mpsd.ctl_json("list")[0]["id"])

    def test_bad_spec_queues_nothing(self):
        before = self.mpsd.ctl_json("list")
        job = harness.write_job(self.folder)
        job.write_text(job.read_text().replace("learning_rate",
                                               "learning_rat"))
        line = next(n for n, text in enumerate(job.read_text().splitlines(), 1)
                    if "learning_rat" in text)
        said = self.mpsd.says("submit", job, code=2)
        for part in (f"job.json:{line}", "training.learning_rat",
                     "learning_rate"):
            self.assertIn(part, said)
        self.assertEqual(before, self.mpsd.ctl_json("list"))

    def test_bad_row_is_rejected(self):
        rows = [harness.row("a", "b"), harness.row("c", "d"),
                '{"mesages": []}']
        job = harness.write_job(self.folder, rows=rows)
        self.mpsd.says("submit", job, code=1)
        job = self.mpsd.show(self.mpsd.ctl_json("list")[0]["id"])
        self.assertEqual("FAILED", job["state"])
        self.assertEqual("Rejected", job["exit_reason"])
        self.assertEqual(1, job["attempt"], "a user's error is not retried")
        self.assertIn("train.jsonl:3", job["message"])
        self.assertNotIn(str(self.mpsd.state_dir), job["message"])

    def test_unknown_model(self):
        job = harness.write_job(self.folder, model="nobody/nothing")
        said = self.mpsd.says("submit", job, "--detach", code=2)
        self.assertIn("nobody/nothing", said)
