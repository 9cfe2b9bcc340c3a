# SPDX-License-Identifier: Apache-2.0
"""`mpsctl generate` by the real worker on the CPU: what a job's adapter, its base
and a whole model answer."""

import json
import os
import signal

import harness

PROMPTS = ["2+2?", "Sky?", "Grass?"]
ASK = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
SHORT = ("--max-new-tokens", "12")


class GenerateTest(harness.SharedDaemonTest):
    def trained(self, **changes):
        return self.mpsd.succeed(harness.write_job(self.folder, **changes))["id"]

    def answers(self, *words):
        """The rows; those on the terminal are the job's progress."""
        return self.mpsd.ctl_json("generate", *words, *SHORT)

    def test_an_adapter_and_its_base(self):
        job = self.trained(called="adapter")
        output = self.folder / "answers.jsonl"
        rows = self.answers(job, *ASK, "--compare-base", "--output", output)
        self.assertEqual(PROMPTS, [row["prompt"] for row in rows])
        for row in rows:
            self.assertLessEqual(1, row["tokens"])
            self.assertLessEqual(row["tokens"], 12)
            self.assertIn(row["finish_reason"], ("eos", "length"))
        saved = [json.loads(line) for line in output.read_text().splitlines()]
        self.assertEqual(rows, saved)
        # Training changed the answers, and the base's are the model's own.
        texts = [row["completion"] for row in rows]
        base = [row["base_completion"] for row in rows]
        self.assertNotEqual(texts, base)
        self.assertEqual(base, [row["completion"] for row in
                                self.answers(self.model, *ASK)])
        # A job like others: `show` and `download` find what it made.
        shown = self.mpsd.show("@last")
        self.assertEqual("GENERATE", shown["kind"])
        self.assertEqual(3, shown["result"]["generate"]["prompts"])
        made = self.download(self.mpsd, shown["id"]) / "out.jsonl"
        self.assertEqual(3, len(made.read_text().splitlines()))
        said = self.mpsd.says("generate", job, *ASK, "--compare-base", *SHORT)
        for word in ("prompt: Sky?", "answer: ", "base: ", "tok/s"):
            self.assertIn(word, said)

    def test_samples_are_what_base_and_result_answer(self):
        job = self.trained(called="sampled", training={
            "sample_prompts": PROMPTS, "sample_max_new_tokens": 12})
        before, after = self.mpsd.show(job)["samples"]
        self.assertEqual([0, 8], [before["step"], after["step"]])
        rows = self.answers(job, *ASK, "--greedy", "--compare-base")
        self.assertEqual(before["completions"],
                         [row["base_completion"] for row in rows])
        self.assertEqual(after["completions"],
                         [row["completion"] for row in rows])
        self.assertIn("AT STEP 8\n  prompt        2+2?\n",
                      self.mpsd.says("show", job))
        said = self.mpsd.says("watch", job)
        self.assertEqual(6, said.count("  sample "), said)

    def test_a_whole_model_and_chats(self):
        job = self.trained(called="whole", fine_tune_type="full", lora=None)
        chat = [{"role": "user", "content": "Sky?"}]
        file = self.folder / "chats.jsonl"
        file.write_text(json.dumps({"messages": chat}) + "\n\n"
                        + json.dumps({"prompt": "Sky?"}) + "\n")
        first, second = self.answers(job, "--input", file)
        self.assertEqual(chat, json.loads(first["prompt"]))
        self.assertEqual(first["completion"], second["completion"])
        raw, = self.answers(job, "--prompt", "Sky?", "--raw")
        self.assertNotEqual(first["completion"], raw["completion"])

    def test_a_killed_worker_and_a_seed(self):
        job = self.trained(called="seeds")
        words = (job, *ASK, "--temperature", "1.5", "--seed", "7")
        expected = self.answers(*words)
        self.assertNotEqual(expected, self.answers(*words[:-1], "8"))
        queued, = self.mpsd.ctl_json("generate", *words, *SHORT, "--detach")
        worker, = self.eventually(self.mpsd.workers)
        os.kill(worker, signal.SIGKILL)
        self.mpsd.finish(queued["id"])
        shown = self.mpsd.show(queued["id"])
        self.assertEqual(("SUCCEEDED", 2), (shown["state"], shown["attempt"]))
        self.assertEqual(expected, shown["result"]["generate"]["rows"])

    def test_what_is_wrong_is_said(self):
        job = self.trained(called="wrong", training={"max_steps": 1})
        count = len(self.mpsd.ctl_json("list"))
        file = self.folder / "bad.jsonl"
        file.write_text('{"prompt": "2+2?"}\n{"promt": "Sky?"}\n')
        for words, said in (
                (["--input", file], "bad.jsonl:2: expected {\"prompt\": TEXT}"),
                (["--input", self.folder / "none"], "none"),
                ([], "expected --prompt or --input"),
                (["--prompt", "x", "--greedy", "--top-p", "0.5"], "--greedy"),
                (["--prompt", "x", "--top-p", "2"], "top_p: must be"),
                (["--prompt", "x", "--output", file], "exists")):
            refused = self.mpsd.ctl("generate", job, *words)
            self.assertEqual(2, refused.returncode, refused.stderr)
            self.assertIn(said, refused.stderr)
        self.assertEqual(count, len(self.mpsd.ctl_json("list")))
        for words, said in (
                ([job, "--prompt", "x", "--max-new-tokens", "60"],
                 "more than the 64 for which the model has positions"),
                ([self.model, "--prompt", "x", "--compare-base"],
                 "compare_base: the job has no adapter")):
            failed = self.mpsd.ctl("generate", *words)
            self.assertEqual(1, failed.returncode, failed.stdout)
            self.assertIn(said, failed.stdout + failed.stderr)
