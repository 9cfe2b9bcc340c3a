# SPDX-License-Identifier: Apache-2.0
"""Data are checked when a job is submitted: bad ones never get the device."""

import json

import harness


def rows(count, **row):
    return "\n".join([json.dumps(row)] * count) + "\n"


# The file, what it holds, and what a refusal says of it.
BAD = (
    ("q.csv", "q,a\n2+2?,4\nSky?,blue\n",
     "q.csv:2: expected \"prompt\" and \"completion\", "),
    ("bad.jsonl", rows(3, text="x") + "{\"text\": 3}\n" + rows(2, txt="x"),
     "bad.jsonl:4: text: expected a string, found 3"),
    ("none.jsonl", "", "none.jsonl: the file has no rows"),
    ("masked.jsonl", rows(9, prompt="x" * 99, completion="y"),
     "there is nothing to learn: every label of all 9 rows is masked"),
    ("q.parquet", "PAR1", "q.parquet is Parquet, which mpsd does not read"),
)


class DataTest(harness.SharedDaemonTest):
    def job(self, name, content, **changes):
        (self.folder / name).write_text(content)
        return harness.write_job(self.folder, dataset={"train": [name]},
                                 **changes)

    def refused(self, path, says, *options):
        text = self.mpsd.says("submit", path, *options, code=2)
        self.assertIn(" was refused: ", text)
        self.assertIn(says, text)
        job = self.mpsd.ctl_json("list", "--limit", "1")[0]
        self.assertEqual(("FAILED", "Rejected", 0), (
            job["state"], job["exit_reason"], job.get("attempt", 0)))

    def test_bad_data_are_refused_before_the_device_is_used(self):
        for name, content, says in BAD:
            with self.subTest(name):
                self.refused(self.job(name, content), says, "--detach")
        self.refused(self.job(*BAD[0][:2]), BAD[0][2])
        (self.model / "tokenizer.json").unlink()
        pushed = self.folder / "model"
        self.refused(self.job("x.jsonl", rows(9, text="x")),
                     f"{pushed}: no tokenizer.json", "--detach")

    def test_a_csv_trains_and_lost_rows_are_a_warning(self):
        lines = [f"{question},{answer}" for question, answer
                 in harness.MESSAGES] + [f"{'x' * 99},y"] * 8
        path = self.job("chat.csv", "question,answer\n" + "\n".join(lines))
        lost = "training data: 8 of 16 rows dropped: no label"
        submitted = self.mpsd.ctl("submit", "--detach", path)
        self.assertIn(f"warning: {lost}\n", submitted.stderr)
        job = self.mpsd.finish(self.mpsd.ctl_json("list")[0]["id"])
        self.assertEqual("SUCCEEDED", job["state"])
        self.assertIn(lost, self.mpsd.says("show", job["id"]))


class SlowCheckTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def test_a_large_set_is_refused_before_its_turn(self):
        daemon = self.mpsd
        runs = daemon.submit(harness.write_job(self.folder, called="fake:hang"))
        path = harness.write_job(self.folder, called="fake:late-data")
        said = daemon.says("submit", "--detach", path)
        self.assertIn("submitted: QUEUED", said)
        self.assertIn("Its data are still being checked", said)
        late = daemon.ctl_json("list", "--limit", "1")[0]["id"]
        self.assertEqual("until its data are checked", daemon.show(late)["hold"])
        self.eventually(lambda: daemon.state(late) == "FAILED")
        self.assertEqual("train.jsonl:9: late", daemon.show(late)["message"])
        self.assertEqual("RUNNING", daemon.state(runs["id"]))
        # A restart checks what is still queued.
        said = daemon.says("submit", "--detach", path)
        daemon.kill()
        daemon.start()
        late = daemon.ctl_json("list", "--limit", "1")[0]["id"]
        self.eventually(lambda: daemon.state(late) == "FAILED")
        self.assertEqual(0, daemon.show(late).get("attempt", 0))
