# SPDX-License-Identifier: Apache-2.0
"""What stays of a deleted job, however it ended and mpsd with it: its record, notes
and tags; and what list and show make of them."""

import json
import pathlib
import sqlite3

import harness

MIGRATIONS = pathlib.Path(__file__).parents[2] / "migrations"


class PastJobsTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def job(self, name="tiny", **changes):
        return harness.write_job(self.folder, called=name, **changes)

    def finished(self, daemon, name="tiny", *options):
        job_id = daemon.submit(self.job(name), *options)["id"]
        daemon.finish(job_id)
        return job_id

    def past(self, daemon, *filters):
        return [job["id"] for job in
                daemon.ctl_json("list", "--past", "--all", *filters)]

    def test_a_real_run_says_what_it_was_done_with(self):
        daemon = self.daemon()
        job_id = daemon.succeed(self.job(), "--label", "team=nlp")["id"]
        record = daemon.show(job_id)["record"]
        self.assertEqual("Done", record["exit_reason"])
        environment = record["environment"]
        self.assertTrue(environment["torch_version"])
        self.assertTrue(environment["daemon_version"])
        self.assertTrue(environment["processor"])
        self.assertTrue(environment["file_systems"]["state"])
        self.assertEqual("cpu", environment["device"])
        self.assertEqual(4, record["shape"]["batch_size"])
        self.assertEqual(8, record["shape"]["total_steps"])
        self.assertEqual(8, record["steps"])
        self.assertRegex(record["data"]["train_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual({"train.jsonl", "eval.jsonl"},
                         {i["path"] for i in record["data"]["inputs"]})
        durations = record["durations"]
        for name in ("load_seconds", "first_step_seconds",
                     "steady_step_seconds", "round_trip_seconds"):
            self.assertGreater(durations[name], 0, name)
        self.assertLess(durations["round_trip_seconds"], 60)
        self.assertIsNotNone(record["conditions"]["readings"])
        # The CPU counts no tensors; the process' memory is the machine's.
        self.assertIsNone(record["memory"]["peak_allocated_bytes"])
        self.assertGreater(record["memory"]["peak_footprint_bytes"], 10 << 20)
        self.assertEqual("Done", record["attempts"][0]["exit_reason"])
        text = daemon.says("show", job_id)
        for word in ("torch version", "power sources", "low power mode",
                     "thermal levels", "round trip", "file systems state"):
            self.assertIn(word, text)
        # All of it is left when the job is gone.
        daemon.says("delete", job_id)
        left = daemon.show(job_id)
        self.assertTrue(left["past"])
        self.assertEqual(record, left["record"])
        self.assertIn('"torch_version"', json.dumps(left["record"]["run"]))
        for filters in (("--label", "team=nlp"), ("--text", job_id[-6:]),
                        ("--text", "NLP"), ("--state", "succeeded"),
                        ("--since", "1h", "--owner", harness.ACCOUNT)):
            self.assertEqual([job_id], self.past(daemon, *filters), filters)
        self.assertEqual([], self.past(daemon, "--label", "team=cv"))

    def test_each_job_that_ended_leaves_its_record(self):
        daemon = self.daemon(worker="fake_worker")
        done = self.finished(daemon)
        failed = self.finished(daemon, "fake:rejected")
        running = daemon.submit(self.job("fake:hang"))["id"]
        self.eventually(lambda: daemon.state(running) == "RUNNING")
        queued = daemon.submit(self.job())["id"]
        for job_id in (queued, running):
            daemon.says("cancel", "--now", job_id)
        daemon.finish(running)
        # A file that a worker spoilt spoils no record.
        (daemon.state_dir / "jobs" / done / "out" / "run.json").write_text(
            '{"device": [[[')
        ids = (done, failed, running, queued)
        for job_id in ids:
            daemon.says("delete", job_id)
        states = {job["id"]: job["state"]
                  for job in daemon.ctl_json("list", "--past")}
        self.assertEqual({done: "SUCCEEDED", failed: "FAILED",
                          running: "CANCELLED", queued: "CANCELLED"}, states)
        self.assertEqual(0, daemon.show(queued)["record"]["attempt_count"])
        self.assertEqual([], daemon.ctl_json("list"))
        daemon.says("cancel", done, code=4)
        # Also after a kill.
        daemon.restart()
        self.assertEqual(list(reversed(ids[:4])), self.past(daemon))

    def test_killed_while_it_runs_the_attempt_was_interrupted(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = daemon.submit(self.job("fake:hang"))["id"]
        self.eventually(lambda: daemon.state(job_id) == "RUNNING")

        def stored():
            database = sqlite3.connect(daemon.state_dir / "mpsd.db")
            count, = database.execute(
                "SELECT count(*) FROM run_attempts").fetchone()
            database.close()
            return count > 0
        self.eventually(stored)
        daemon.restart()
        daemon.says("cancel", "--now", job_id)
        daemon.finish(job_id)
        daemon.says("delete", job_id)
        reasons = [a["exit_reason"]
                   for a in daemon.show(job_id)["record"]["attempts"]]
        self.assertEqual("Interrupted", reasons[0])

    def test_a_database_of_the_last_release_with_records_opens(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.finished(daemon)
        daemon.terminate()
        path = daemon.state_dir / "mpsd.db"
        path.rename(path.with_suffix(".new"))
        for other in daemon.state_dir.glob("mpsd.db-*"):
            other.unlink()
        former = sqlite3.connect(path)
        former.execute("PRAGMA foreign_keys=ON")
        names = sorted(MIGRATIONS.glob("00*.sql"))[:22]
        for name in names:
            former.executescript(name.read_text())
        new = sqlite3.connect(path.with_suffix(".new"))
        application, = new.execute("PRAGMA application_id").fetchone()
        new.close()
        former.executescript(f"""
            PRAGMA application_id={application}; PRAGMA user_version=22;
            INSERT INTO records (number, id, owner, end_time_us, kind, state,
                                 name)
            VALUES (1, '01HKX24J400000000000000002', 'bob', 5, 1, 4, 'gone');
            INSERT INTO record_bodies VALUES
              (1, CAST(char(10) || char(26) ||
                       '01HKX24J400000000000000002' || char(32, 4) AS BLOB));
            INSERT INTO record_tags VALUES ('best', 1);
            INSERT INTO record_notes VALUES (1, 1, 8, 'eve', 'old note', 0);
            INSERT INTO record_text_rows VALUES (256, 'gone bob');
            INSERT INTO record_texts (rowid, texts) VALUES (256, 'gone bob');
        """)
        former.close()
        daemon.start()
        listed, = daemon.ctl_json("list", "--past")
        self.assertEqual("gone", listed["name"])
        self.assertEqual(["best"], listed["tags"])
        record = daemon.show(listed["id"])["record"]
        self.assertEqual("old note", record["notes"][0]["text"])
        # Jobs still end and go.
        again = self.finished(daemon)
        daemon.says("delete", again)
        self.assertEqual([again, listed["id"]], self.past(daemon))
        self.assertNotIn(job_id, self.past(daemon))
