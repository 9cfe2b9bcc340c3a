# SPDX-License-Identifier: Apache-2.0
"""The logbook: each end has a record, however mpsd ends; what is searched,
noted, exported; what stays when jobs go."""

import csv
import json
import os
import sqlite3
import subprocess
import threading
import time
import unittest

import harness


class LogbookTest(harness.EndToEndTest):
    def job(self, name="tiny", **changes):
        path = harness.write_job(self.folder, **changes)
        path.write_text(path.read_text().replace('"tiny"', json.dumps(name)))
        return path

    def finished(self, daemon, name="tiny", *options):
        job_id = daemon.submit(self.job(name), *options)["id"]
        daemon.finish(job_id)
        return job_id

    def record(self, daemon, job_id):
        record, = daemon.ctl_json("log", "show", job_id)
        return record

    def found(self, daemon, query=""):
        return [r["id"] for r in daemon.ctl_json("log", "search", query)]

    def eventually(self, holds):
        deadline = time.monotonic() + harness.TIMEOUT
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.02)

    def test_a_real_run_tells_what_it_was_done_with(self):
        daemon = self.daemon()
        job_id = daemon.submit(self.job(), "--label", "team=nlp")["id"]
        self.assertEqual("SUCCEEDED", daemon.finish(job_id)["state"])
        record = self.record(daemon, job_id)
        self.assertEqual("TRAINING", record["kind"].upper())
        self.assertEqual("SUCCEEDED", record["state"])
        self.assertEqual("Done", record["exit_reason"])
        environment = record["environment"]
        self.assertTrue(environment["torch_version"])
        self.assertTrue(environment["processor"])
        self.assertEqual("cpu", environment["device"])
        self.assertEqual(4, record["shape"]["batch_size"])
        self.assertEqual(8, record["shape"]["total_steps"])
        self.assertEqual(8, record["steps"])
        self.assertRegex(record["data"]["train_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual({"train.jsonl", "eval.jsonl"},
                         {i["path"] for i in record["data"]["inputs"]})
        self.assertGreater(record["durations"]["load_seconds"], 0)
        self.assertGreater(record["durations"]["first_step_seconds"], 0)
        self.assertGreater(record["durations"]["steady_step_seconds"], 0)
        # None at all in a run that is shorter than the time between two.
        self.assertIsNotNone(record["conditions"]["readings"])
        self.assertGreater(record["durations"]["round_trip_seconds"], 0)
        self.assertLess(record["durations"]["round_trip_seconds"], 60)
        # The CPU counts no tensors; the process' memory is the machine's.
        self.assertIsNone(record["memory"]["peak_allocated_bytes"])
        self.assertGreater(record["memory"]["peak_footprint_bytes"], 10 << 20)
        self.assertEqual(1, record["attempt_count"])
        self.assertEqual("Done", record["attempts"][0]["exit_reason"])
        self.assertLess(record["eval_loss"], record["eval_loss_before"])
        for query in ("device=cpu", "label.team=nlp", "steps=8", "task=CAUSAL_LM",
                      "eval_loss<100 since:1h", "footprint>10MB",
                      "round_trip<60s", job_id[-6:], "kind=training"):
            self.assertEqual([job_id], self.found(daemon, query), query)
        shown = daemon.ctl("log", "show", job_id)
        self.assertIn("not told", shown.stdout)
        self.assertIn("torch", shown.stdout)

    def test_every_end_has_a_record_that_outlives_its_job(self):
        daemon = self.daemon(worker="fake_worker")
        done = self.finished(daemon)
        failed = self.finished(daemon, "fake:rejected")
        running = daemon.submit(self.job("fake:hang"))["id"]
        self.eventually(lambda: daemon.show(running)["state"] == "RUNNING")
        queued = daemon.submit(self.job())["id"]
        for job_id in (queued, running):
            self.assertEqual(0, daemon.ctl("cancel", "--now",
                                           job_id).returncode)
        daemon.finish(running)
        for job_id in (done, failed, running, queued):
            # At once: nobody has waited for the record.
            result = daemon.ctl("delete", job_id)
            self.assertEqual(0, result.returncode, result.stderr)
        states = {r["id"]: r["state"]
                  for r in daemon.ctl_json("log", "search", "")}
        self.assertEqual({done: "SUCCEEDED", failed: "FAILED",
                          running: "CANCELLED", queued: "CANCELLED"}, states)
        self.assertEqual(0, self.record(daemon, queued)["attempt_count"])
        self.assertEqual([], daemon.ctl_json("list"))
        # Also after a restart.
        daemon.terminate()
        daemon.start()
        self.assertEqual(4, len(self.found(daemon)))

    def test_a_kill_between_end_and_record_loses_none(self):
        daemon = self.daemon(worker="fake_worker")
        ids = []
        for _ in range(8):
            job_id = daemon.submit(self.job())["id"]
            ids.append(job_id)
            self.eventually(lambda: daemon.show(job_id)["state"]
                            == "SUCCEEDED")
            daemon.kill()  # the record may be written by now, or not
            daemon.start()
        self.eventually(lambda: set(self.found(daemon)) == set(ids))

    def test_an_end_whose_record_never_came_gets_one_at_start(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon)
        self.record(daemon, job_id)
        daemon.terminate()
        database = sqlite3.connect(daemon.state_dir / "mpsd.db")
        with database:
            for table in ("record_bodies", "record_text_rows", "records"):
                database.execute(f"DELETE FROM {table}")
            database.execute("INSERT INTO record_texts (record_texts) "
                             "VALUES ('rebuild')")
            database.execute("INSERT INTO unwritten_records (job_id) "
                             "VALUES (?)", (job_id,))
        database.close()
        (daemon.state_dir / "jobs" / job_id / "out" / "run.json").write_text(
            '{"device": [[[')
        daemon.start()
        self.eventually(lambda: self.found(daemon) == [job_id])
        self.assertEqual("SUCCEEDED", self.record(daemon, job_id)["state"])

    def test_a_retried_job_has_its_record_renewed(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon, "fake:rejected")
        other = self.finished(daemon)
        self.assertEqual(0, daemon.ctl("log", "tag", job_id,
                                       "+flaky").returncode)
        self.assertEqual(0, daemon.ctl(
            "log", "note", job_id, "not the data", "--rejected").returncode)
        self.eventually(lambda: self.found(daemon) == [other, job_id])
        self.assertEqual(0, daemon.ctl("retry", job_id).returncode)
        daemon.finish(job_id)
        self.eventually(lambda: self.found(daemon) == [job_id, other])
        record = self.record(daemon, job_id)
        self.assertEqual(["flaky"], record["tags"])
        self.assertEqual("not the data", record["notes"][0]["text"])
        self.assertTrue(record["notes"][0]["rejected"])
        # Retry counts attempts anew; what was seen of both is there.
        self.assertEqual(2, len(record["attempts"]))
        self.assertEqual([job_id], self.found(daemon, '"not the data"'))
        self.assertEqual([job_id], self.found(daemon, "tag:flaky"))

    def test_killed_while_it_runs_the_attempt_is_told_as_interrupted(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = daemon.submit(self.job("fake:hang"))["id"]
        self.eventually(lambda: daemon.show(job_id)["state"] == "RUNNING")
        path = daemon.state_dir / "mpsd.db"
        def stored():
            database = sqlite3.connect(path)
            count, = database.execute(
                "SELECT count(*) FROM run_attempts").fetchone()
            database.close()
            return count > 0
        self.eventually(stored)
        daemon.kill()
        daemon.start()
        self.assertEqual(0, daemon.ctl("cancel", "--now", job_id).returncode)
        daemon.finish(job_id)
        reasons = [a["exit_reason"]
                   for a in self.record(daemon, job_id)["attempts"]]
        self.assertEqual("Interrupted", reasons[0])

    def test_a_bad_query_says_where_and_what(self):
        daemon = self.daemon(worker="fake_worker")
        result = daemon.ctl("log", "search", "model~qwen eval_loss<abc")
        self.assertEqual(2, result.returncode)
        self.assertIn("query:22: expected a number behind eval_loss<",
                      result.stderr)

    def test_exports_are_whole_and_harmless(self):
        daemon = self.daemon(worker="fake_worker")
        evil = '=HYPERLINK("http://x")|<b>*[a](b)*\x1b[2J'
        ids = [self.finished(daemon) for _ in range(3)]
        self.assertEqual(0, daemon.ctl("log", "note", ids[0],
                                       "=1+1 | <script>").returncode)
        hostile = daemon.submit(self.job(), "--label", f"a={evil[:20]}")["id"]
        daemon.finish(hostile)
        self.eventually(lambda: len(self.found(daemon)) == 4)
        out = self.folder / "log.csv"
        self.assertEqual(0, daemon.ctl("log", "export", "--csv", "",
                                       str(out)).returncode)
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(4, len(rows))
        for row in rows:
            for value in row.values():
                self.assertNotRegex(value, r"^[=+@\t]", row)
        lines = daemon.ctl("log", "export", "--jsonl").stdout.splitlines()
        self.assertEqual(set(ids + [hostile]),
                         {json.loads(line)["id"] for line in lines})
        markdown = daemon.ctl("log", "export", "--markdown").stdout
        self.assertNotIn("<script>", markdown)
        self.assertEqual(6, len(markdown.splitlines()))
        columns = markdown.splitlines()[0].count("|")
        for line in markdown.splitlines():
            self.assertEqual(columns, line.replace("\\|", "").count("|"), line)

    def test_fifty_writers_of_notes(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon)
        codes = []

        def write(number):
            codes.append(daemon.ctl("log", "note", job_id,
                                    f"note {number}").returncode)
        threads = [threading.Thread(target=write, args=(i,))
                   for i in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([0] * 50, codes)
        notes = [n["text"] for n in self.record(daemon, job_id)["notes"]]
        self.assertEqual({f"note {i}" for i in range(50)}, set(notes))

    def test_entries_of_their_own(self):
        daemon = self.daemon(worker="fake_worker")
        entry, = daemon.ctl_json("log", "note", "-",
                                 "bf16 is not why it diverges", "--rejected")
        self.assertEqual(26, len(entry["id"]))
        self.assertEqual(harness.ACCOUNT, entry["owner"])
        self.assertEqual([entry["id"]], self.found(daemon, "kind=note"))
        self.assertEqual([entry["id"]], self.found(daemon, "diverges"))
        self.assertIn("rejected", daemon.ctl("log", "show",
                                             entry["id"]).stdout)

    def test_two_records_side_by_side(self):
        daemon = self.daemon(worker="fake_worker")
        first = self.finished(daemon)
        second = daemon.submit(self.job(lora={"r": 16}))["id"]
        daemon.finish(second)
        for job_id in (first, second):
            self.record(daemon, job_id)
            self.assertEqual(0, daemon.ctl("delete", job_id).returncode)
        diff, = daemon.ctl_json("log", "diff", first, second)
        self.assertEqual({"lora.r": ["4", "16"]}, diff["spec"])
        text = daemon.ctl("log", "diff", first, second).stdout
        self.assertIn("lora.r", text)
        self.assertIn("RESULTS", text)


if __name__ == "__main__":
    unittest.main()
