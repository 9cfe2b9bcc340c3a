# SPDX-License-Identifier: Apache-2.0
"""What people do to jobs in the queue, and to the queue: hold, release, move,
retry, drain and wait, by the real programs, killed in the middle of it."""

import os
import random
import subprocess
import threading
import time
import unittest
import urllib.request

import harness

LONG = {"max_steps": 600, "save_steps": 50}


class VerbsTest(harness.EndToEndTest):
    def fake(self, daemon, mode, *options, **training):
        """Submits a job of the fake worker."""
        path = harness.write_job(self.folder, training=training)
        path.write_text(path.read_text().replace('"tiny"', f'"fake:{mode}"'))
        return daemon.submit(path, *options)["id"]

    def succeeds(self, daemon, *args):
        result = daemon.ctl(*args)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def eventually(self, holds):
        deadline = time.monotonic() + harness.TIMEOUT
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it does not come")
            time.sleep(0.005)

    def until_running(self, daemon, job_id):
        self.eventually(lambda: daemon.show(job_id)["state"] == "RUNNING")

    def order(self, daemon):
        queue, = daemon.ctl_json("queue")
        return [entry["id"] for entry in queue.get("entries", [])]

    def entries(self, folder):
        try:
            return len(os.listdir(folder))
        except FileNotFoundError:
            return 0

    def metric(self, daemon, name):
        info, = daemon.ctl_json("info")
        url = f"http://{info['metrics_address']}/metrics"
        with urllib.request.urlopen(url, timeout=harness.TIMEOUT) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def test_held_jobs_wait_through_a_kill(self):
        daemon = self.daemon(worker="fake_worker")
        first = self.fake(daemon, "ok", "--hold")
        second = self.fake(daemon, "ok", "--hold")
        self.assertIn("Job " + first + " is held by " + harness.ACCOUNT
                      + ": no data",
                      self.succeeds(daemon, "hold", first, "--reason",
                                    "no data"))
        self.assertEqual(0, self.metric(daemon,
                                        "mpsd_queue_oldest_age_seconds"))
        daemon.kill()
        daemon.start()
        shown = daemon.show(first)
        self.assertEqual(("QUEUED", True, f"by {harness.ACCOUNT}: no data"),
                         (shown["state"], shown["held"], shown["hold"]))
        self.assertIn("held: since its submission", daemon.ctl("queue").stdout)
        other = self.fake(daemon, "ok")
        self.assertEqual("SUCCEEDED", daemon.finish(other)["state"])
        self.succeeds(daemon, "release", first, second)
        self.succeeds(daemon, "wait", first, second)
        self.assertEqual(2, daemon.ctl("hold", first).returncode)

    def test_moves_outlive_a_kill(self):
        daemon = self.daemon(worker="fake_worker")
        self.succeeds(daemon, "drain", "--reason", "a new disk")
        one, two, three = (self.fake(daemon, "ok") for _ in range(3))
        self.succeeds(daemon, "move", two, three, "--top")
        self.assertEqual([two, three, one], self.order(daemon))
        self.succeeds(daemon, "move", two, "--bottom")
        self.assertEqual([three, one, two], self.order(daemon))
        self.succeeds(daemon, "move", one, "--priority", "5")
        daemon.kill()
        daemon.start()
        self.assertEqual([one, three, two], self.order(daemon))
        queue = self.succeeds(daemon, "queue")
        self.assertIn("moved behind all others of it by an admin", queue)
        self.assertIn(
            f"held: mpsd is drained by {harness.ACCOUNT}: a new disk", queue)

    def test_a_drained_daemon_starts_nothing_after_a_restart_either(self):
        daemon = self.daemon(worker="fake_worker")
        running = self.fake(daemon, "ok-slow", max_steps=300)
        self.until_running(daemon, running)
        self.succeeds(daemon, "drain")
        waiting = self.fake(daemon, "ok")
        self.succeeds(daemon, "wait", running)
        daemon.kill()
        daemon.start()
        time.sleep(0.3)
        self.assertEqual("QUEUED", daemon.show(waiting)["state"])
        info, = daemon.ctl_json("info")
        self.assertTrue(info["drained"])
        self.eventually(lambda: daemon.ctl_json("info")[0]["hold_reason"]
                        == "drained")
        self.eventually(lambda: self.metric(
            daemon, 'mpsd_held{reason="drained"}') == 1)
        self.assertEqual(7, daemon.ctl("wait", waiting, "--timeout",
                                       "2").returncode)
        self.succeeds(daemon, "undrain")
        self.succeeds(daemon, "wait", waiting)
        audit = self.succeeds(daemon, "audit")
        self.assertIn("Drain", audit)
        self.assertIn("Undrain", audit)

    def test_wait_tells_how_they_ended(self):
        daemon = self.daemon("--max-failures", "1", worker="fake_worker")
        good = self.fake(daemon, "ok")
        bad = self.fake(daemon, "rejected")
        endless = self.fake(daemon, "ok-slow", max_steps=100000)
        self.succeeds(daemon, "wait", good)
        self.assertEqual(1, daemon.ctl("wait", good, bad).returncode)
        first = daemon.ctl("wait", "--any", endless, bad)
        self.assertEqual(1, first.returncode)
        self.assertIn(f"Job {bad} FAILED", first.stdout)
        self.assertEqual(4, daemon.ctl("wait", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
                         .returncode)
        gets = 'mpsd_rpc_requests_total{code="ok",method="JobService.Get"}'
        before = self.metric(daemon, gets)
        waiter = subprocess.Popen(
            [str(harness.BIN / "mpsctl"), "--state-dir", str(daemon.state_dir),
             "wait", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=harness.environment())
        self.addCleanup(waiter.kill)
        # The second time it asks it has had an answer.
        self.eventually(lambda: self.metric(daemon, gets) >= before + 2)
        daemon.kill()
        daemon.start()
        self.succeeds(daemon, "cancel", endless)
        out, err = waiter.communicate(timeout=harness.TIMEOUT)
        self.assertEqual(5, waiter.returncode, err)
        self.assertIn(f"Job {endless} CANCELLED", out)

    def test_fifty_at_once_leave_one_state(self):
        daemon = self.daemon(worker="fake_worker")
        self.succeeds(daemon, "drain")
        ids = [self.fake(daemon, "ok") for _ in range(5)]
        verbs = [("hold",), ("release",), ("move", "--top"),
                 ("move", "--bottom"), ("move", "--priority", "3")]
        codes = []

        def change(number):
            verb = verbs[number % len(verbs)]
            codes.append(daemon.ctl(verb[0], ids[number % 3],
                                    *verb[1:]).returncode)

        threads = [threading.Thread(target=change, args=(i,))
                   for i in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({0}, set(codes))
        before = self.order(daemon)
        self.assertEqual(sorted(ids), sorted(before))
        daemon.kill()
        daemon.start()
        self.assertEqual(before, self.order(daemon))

    def test_from_scratch_killed_in_the_middle(self):
        """Whatever moment mpsd is killed at, the job either keeps what it had
        or runs from its first step."""
        daemon = self.daemon(worker="fake_worker")
        kept = 0
        for attempt in range(8):
            job_id = self.fake(daemon, "ok-slow", max_steps=6)
            self.succeeds(daemon, "wait", job_id)
            folder = daemon.state_dir / "jobs" / job_id / "out" / "many"
            folder.mkdir()
            for i in range(1000):
                (folder / str(i)).touch()
            retry = subprocess.Popen(
                [str(harness.BIN / "mpsctl"), "--state-dir",
                 str(daemon.state_dir), "retry", "--from-scratch", job_id],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=harness.environment())
            if attempt % 2 == 0:
                time.sleep(random.uniform(0, 0.15))
            else:  # as the removal begins
                self.eventually(lambda: not (folder / "999").exists()
                                or self.entries(folder) < 1000)
            daemon.kill()
            retry.wait(harness.TIMEOUT)
            daemon.start()
            self.succeeds(daemon, "wait", job_id)
            self.assertEqual("SUCCEEDED", daemon.show(job_id)["state"])
            if daemon.show(job_id)["attempt"] == 1:
                self.assertTrue(folder.exists(), "it did not run again")
                kept += 1
            else:
                self.assertFalse(folder.exists(), "an earlier run's files")
        self.assertLessEqual(kept, 4, "what began to go has to go")

    def test_what_is_needed_or_runs_is_refused_with_words(self):
        daemon = self.daemon(worker="fake_worker")
        job_id = self.fake(daemon, "ok")
        self.succeeds(daemon, "wait", job_id)
        refused = daemon.ctl("retry", job_id)
        self.assertEqual(2, refused.returncode)
        self.assertIn("mpsctl retry --from-scratch", refused.stderr)
        self.assertEqual(2, daemon.ctl("hold", job_id, "--reason",
                                       "x" * 257).returncode)
        self.assertEqual(2, daemon.ctl("release", job_id).returncode)
        self.assertEqual(2, daemon.ctl("move", job_id, "--top").returncode)


class TrainingTest(harness.EndToEndTest):
    """With the real worker."""

    def test_retried_jobs_come_out_as_undisturbed_ones(self):
        daemon = self.daemon(*harness.slow_disk(20))
        job = harness.write_job(self.folder, training=LONG)
        calm = daemon.finish(daemon.submit(job)["id"])["id"]
        expected = (self.download(daemon, calm)
                    / "adapter_model.safetensors").read_bytes()
        job_id = daemon.submit(job)["id"]
        with daemon.watch(job_id) as watch:
            watch.until_checkpoint(50)
            self.assertEqual(0, daemon.ctl("retry", job_id).returncode)
            watch.until(lambda e: e.get("state", {}).get("state") == "QUEUED")
            watch.until_checkpoint(150)
            again = daemon.ctl("retry", "--from-scratch", job_id)
            self.assertEqual(0, again.returncode, again.stderr)
            watch.until(lambda e: e.get("state", {}).get("state") == "QUEUED")
            # Fast steps may share an event; checkpoints have their own.
            first = watch.until_checkpoint(0)
            self.assertEqual(50, first["checkpoint"]["step"], "from scratch")
            self.assertEqual("SUCCEEDED", watch.finish()["state"])
        self.assertEqual(3, daemon.show(job_id)["attempt"])
        adapter = self.download(daemon, job_id)
        self.assertEqual(expected, (
            adapter / "adapter_model.safetensors").read_bytes())
        listed = daemon.ctl_json("checkpoints", job_id)
        self.assertEqual(LONG["max_steps"], max(
            int(c["step"]) for c in listed))


if __name__ == "__main__":
    unittest.main()
