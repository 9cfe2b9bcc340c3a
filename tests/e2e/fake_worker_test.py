# SPDX-License-Identifier: Apache-2.0
"""Everything a worker can do wrong, through the whole daemon: each mode of
tests/fakes/fake_worker.cc, and what becomes of its job."""

import harness

# mode: state, exit reason, times a worker was started, part of the message.
RETRIED = 2  # --max-failures below
BY_NAME = {
    "ok": ("SUCCEEDED", "Done", 1, ""),
    "crash-segv": ("FAILED", "Crashed", RETRIED, "SIGSEGV"),
    "crash-abort": ("FAILED", "Crashed", RETRIED, "MPSGraph assertion failed"),
    "exit-1": ("FAILED", "Crashed", RETRIED, "exited with status 1"),
    "exit-0": ("FAILED", "Crashed", RETRIED, "exited with status 0"),
    "hang": ("FAILED", "Hung", RETRIED, "stopped reporting"),
    "garbage": ("FAILED", "ProtocolError", RETRIED, "broke the protocol"),
    "half-line": ("FAILED", "Crashed", RETRIED, "exited with status 1"),
    "oom": ("FAILED", "OutOfMemory", 1, "MPS out of memory"),
    "rejected": ("FAILED", "Rejected", 1, "train.jsonl:3"),
    "nonfinite": ("FAILED", "NonFinite", 1, "the loss is NaN"),
    "internal": ("FAILED", "Crashed", RETRIED, "INTERNAL ASSERT FAILED"),
    "warn": ("SUCCEEDED", "Done", 1, ""),
    "stderr-flood": ("SUCCEEDED", "Done", 1, ""),
    "flood-then-crash": ("FAILED", "Crashed", RETRIED, "last words"),
    "checkpoint-then-crash": ("SUCCEEDED", "Done", 5, ""),
    "linger": ("SUCCEEDED", "Done", 1, ""),
    "talk-after-done": ("FAILED", "ProtocolError", RETRIED, "protocol"),
    "unasked-stop": ("FAILED", "ProtocolError", RETRIED, "without being asked"),
    "hello-twice": ("FAILED", "ProtocolError", RETRIED, "protocol"),
    "close-fd": ("FAILED", "ProtocolError", RETRIED, "closed fd 3"),
}
# These go wrong before they know the job's name.
BY_ENVIRONMENT = {
    "bad-version": ("FAILED", "ProtocolError", RETRIED, "99"),
    "no-hello": ("FAILED", "ProtocolError", RETRIED, "Hello"),
    "mute": ("FAILED", "Hung", RETRIED, "stopped reporting"),
    "leak-check": ("SUCCEEDED", "Done", 1, ""),
}
LIMITS = ("--stop-grace-seconds", "0.3", "--max-failures", str(RETRIED))
# For those that have to hang, and no others: on a busy machine a worker may
# well be silent for a second.
HANGING = (*LIMITS, "--hang-timeout-seconds", "0.7")


class FakeWorkerTest(harness.SharedDaemonTest):
    OPTIONS = LIMITS
    WORKER = "fake_worker"

    def submit(self, daemon, mode):
        return daemon.submit(harness.write_job(
            self.folder, called=f"fake:{mode}",
            training={"max_steps": 5}))["id"]

    def hold_device(self):
        """A deaf worker's job, which runs until the test's end."""
        job_id = self.submit(self.mpsd, "slow-exit")
        self.addCleanup(self.mpsd.ctl, "cancel", "--now", job_id)
        return job_id

    def check(self, daemon, mode, job_id, expected):
        state, reason, attempts, message = expected
        job = daemon.finish(job_id)
        with self.subTest(mode):
            self.assertEqual((state, reason, attempts),
                             (job["state"], job["exit_reason"],
                              job["attempt"]), job["message"])
            self.assertIn(message, job["message"])
            self.assertEqual(0 if state == "SUCCEEDED" else 1,
                             daemon.ctl("watch", job_id).returncode)

    def test_the_whole_repertoire(self):
        daemon = self.mpsd
        modes = [mode for mode in BY_NAME if mode != "hang"]
        jobs = {mode: self.submit(daemon, mode) for mode in modes}
        for mode in modes:
            self.check(daemon, mode, jobs[mode], BY_NAME[mode])
        self.assertEqual([], daemon.workers())

    def test_one_that_hangs(self):
        daemon = self.daemon(*HANGING, worker="fake_worker")
        self.check(daemon, "hang", self.submit(daemon, "hang"),
                   BY_NAME["hang"])
        self.assertEqual([], daemon.workers())
        self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_before_the_first_word(self):
        for mode, expected in BY_ENVIRONMENT.items():
            daemon = harness.Daemon(
                self.folder / mode / "state",
                *(HANGING if mode == "mute" else LIMITS),
                worker="fake_worker", env={"FAKE_WORKER_MODE": mode})
            (self.folder / mode).mkdir()
            self.addCleanup(daemon.close)
            daemon.start()
            job = daemon.submit(harness.write_job(
                self.folder, training={"max_steps": 5}))
            self.check(daemon, mode, job["id"], expected)
            self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_deaf_worker_is_killed_when_cancelled(self):
        job_id = self.hold_device()
        with self.mpsd.watch(job_id) as watch:
            watch.until_note("ignoring")
            self.mpsd.ctl("cancel", job_id)
            self.assertEqual("CANCELLED", watch.finish()["state"])
        self.assertEqual([], self.mpsd.workers())

    def test_deaf_worker_does_not_keep_the_daemon(self):
        job_id = self.hold_device()
        with self.mpsd.watch(job_id) as watch:
            watch.until_note("ignoring")
        self.assertEqual(0, self.mpsd.terminate(), self.mpsd.said())
        self.mpsd.start()
        self.assertIn(self.mpsd.state(job_id), ("QUEUED", "RUNNING"))
