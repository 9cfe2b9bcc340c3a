# SPDX-License-Identifier: Apache-2.0
"""`mpsctl top` in a real terminal (tmux), with the real mpsd."""

import contextlib
import json
import os
import re
import resource
import signal
import sqlite3
import sys
import time
import unittest

import harness
import terminal

IDLE_SECONDS = 30
# What top may take beside 10,000 jobs while nobody presses a key: of one core
# (measured: 0.02), and of memory (measured: 33 MB).
MOST_IDLE_SHARE = 0.10
MOST_RESIDENT_BYTES = 100_000_000


def setUpModule():
    if terminal.TMUX is None:
        print("\nSKIPPED: e2e/top: there is no tmux here: "
              "run deploy/setup.sh --tests", flush=True)
        raise unittest.SkipTest("no tmux")
    # Some tests crash mpsctl.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="utf-8") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class TopTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.host = self.daemon(worker="fake_worker")

    def submit(self, mode, *options, name=None, steps=20_000):
        """The id of a job; its worker behaves as fake_worker's `mode`."""
        path = harness.write_job(self.folder, training={"max_steps": steps})
        spec = json.loads(path.read_text())
        spec["name"] = name or f"fake:{mode}"
        path.write_text(json.dumps(spec))
        return self.host.submit(path, *options)["id"]

    def run_job(self, *options):
        """A job that takes minutes, once it trains."""
        job = self.submit("ok-slow", *options)
        with self.host.watch(job) as watch:
            watch.until(lambda e: "progress" in e)
        return job

    def queue(self, count, **more):
        return [self.submit("ok", **more) for _ in range(count)]

    def top(self, columns=80, rows=24, **environment):
        shown = terminal.Terminal(
            [str(harness.BIN / "mpsctl"), "--state-dir",
             str(self.host.state_dir), "top"], columns, rows, **environment)
        self.addCleanup(shown.close)
        return shown

    def selected(self, screen):
        """The end of the selected job's id."""
        return screen.until(r"^> (\w{8}) ").group(1)

    def expect_shell(self, screen):
        """The terminal is as it was before top."""
        screen.until(r"^\$ *$")
        self.assertEqual(("0", "1"), screen.modes())
        screen.type("stty -a; echo seen")  # echoed: the shell's modes are back
        screen.until(r"stty -a; echo seen")
        screen.until(r"^seen")
        self.assertRegex(screen.text(), r"(?<!-)\bisig icanon")
        self.assertRegex(screen.text(), r"(?<!-)\becho\b")

    def test_queue_and_running_job(self):
        job = self.run_job()
        waiting = self.submit("ok", "--priority", "-1")
        self.give(waiting, "bob")
        screen = self.top()
        screen.until(r"1 running, 1 queued")
        screen.until(rf"^job {job}  RUNNING  {harness.ACCOUNT}  fake:ok-slow")
        screen.until(r"step \d+/20000 .* ETA ")
        screen.until(r"step 100ms .* 1,000 tok/s .* lr 0.001")
        screen.until(r"memory 1.0 MB .* footprint 2.1 MB")
        screen.until(r"^loss by step")
        screen.until(r"[⠁-⣿━]{5}")
        self.assertEqual(job[-8:], self.selected(screen))
        screen.until(rf"^  {waiting[-8:]} QUEUED 1 .* bob ")
        self.assertEqual(24, len(screen.screen()))
        # It lives.
        step = int(screen.until(r"step (\d+)/20000").group(1))
        screen.until(rf"step (?!{step}/)\d+/20000")
        screen.keys("q")
        self.expect_shell(screen)

    def test_sizes(self):
        self.run_job()
        screen = self.top(200, 60)
        screen.until(r"PRIORITY .* TOK/S .* WHY")
        screen.until(r"━ smoothed")  # once there are steps enough
        screen.resize(80, 24)
        screen.until(r"PRIORITY", absent=True)
        screen.until(r"^\? help .* q quit")
        screen.until(r"^> \w{8} RUNNING")
        screen.resize(60, 20)
        screen.until(r"top needs 80x24")
        screen.resize(132, 43)
        screen.until(r"ETA .* AGE")
        for columns, rows in ((20, 5), (1, 1), (500, 200), (80, 24)):
            screen.resize(columns, rows)
        screen.until(r"^> \w{8} RUNNING")
        screen.keys("q")
        self.expect_shell(screen)

    def test_sort_filter_and_help(self):
        self.run_job()
        for owner, name in (("zoe", "alpha"), ("bob", "beta")):
            self.give(self.submit("ok", name=name), owner)
        screen = self.top()
        screen.until(r"jobs 3 of 3, by queue")
        screen.keys("s", "s")
        screen.until(r"by name")
        # The rows may be drawn after the line that names their order.
        screen.until(r"(?s)^[> ] \w{8} [^\n]* alpha\n"
                     r"[> ] \w{8} [^\n]* beta\n"
                     r"[> ] \w{8} [^\n]* fake:ok-slow$")
        screen.keys("r")
        screen.until(r"by name reversed")
        screen.keys("/")
        screen.tmux("send-keys", "-l", "zoe")
        screen.until(r"^/zoe_")
        screen.until(r"jobs 1 of 3, by name reversed, with \"zoe\"")
        screen.keys("Enter")
        screen.until(r"^\? help")
        screen.keys("Escape")
        screen.until(r"jobs 3 of 3")
        screen.keys("?")
        screen.until(r"Ctrl-L")
        screen.keys("x")
        screen.until(r"jobs 3 of 3")
        screen.keys("End", "Up")
        screen.until(r"^> \w{8} .* beta")
        screen.keys("Enter")
        screen.until(r"^job \w{26}  QUEUED.*\[chosen\]  bob  beta")
        screen.keys("q")
        self.expect_shell(screen)

    def test_log(self):
        job = self.submit("stderr-flood")
        self.host.finish(job)
        screen = self.top()
        screen.until(rf"^> {job[-8:]} SUCCEEDED")
        screen.keys("l")
        screen.until(rf"^log of job {job}")
        screen.until(r"^x{80}")
        screen.keys("PageUp")
        screen.until(r"lines above its end")
        screen.keys("End")
        screen.until(r"lines above its end", absent=True)
        screen.keys("q")
        screen.until(rf"^> {job[-8:]} SUCCEEDED")
        screen.keys("q")
        self.expect_shell(screen)

    def test_cancel_asks_first(self):
        job = self.run_job()
        screen = self.top()
        screen.until(rf"^> {job[-8:]} RUNNING")
        screen.keys("c")
        screen.until(rf"Cancel job {job} \(RUNNING\)\? y/n")
        screen.keys("n")
        screen.until(r"^\? help")
        self.assertEqual("RUNNING", self.host.show(job)["state"])
        screen.keys(*"accuracy")  # pasted by mistake
        screen.until(r"\? y/n")
        self.assertEqual("RUNNING", self.host.show(job)["state"])
        screen.keys("y")
        screen.until(rf"Job {job} is being cancelled")
        screen.until(rf"^> {job[-8:]} CANCELLED")
        self.assertEqual("CANCELLED", self.host.show(job)["state"])
        screen.keys("c")
        screen.until(r"\? y/n")
        screen.keys("y")
        screen.until(rf"Job {job} is CANCELLED")
        screen.keys("q")
        self.expect_shell(screen)

    def test_no_colours(self):
        self.run_job()
        for environment in ({"NO_COLOR": "1"}, {"term": "vt100"}):
            screen = self.top(**environment)
            screen.until(r"^> \w{8} RUNNING")
            self.assertNotRegex(screen.styled(), r"\x1b\[(?:\d+;)*3[0-7]",
                                environment)
            screen.keys("q")
            self.expect_shell(screen)
        screen = self.top()
        screen.until(r"^> \w{8} RUNNING")
        self.assertRegex(screen.styled(), r"\x1b\[(?:\d+;)*3[0-7]")

    def test_ascii(self):
        self.submit("ok-slow", name="fake:ok-slow")
        self.submit("ok", name="Straße שלום 気分")
        for environment in ({"LANG": "C"}, {"term": "linux"}):
            screen = self.top(**environment)
            screen.until(r"^loss by step")
            screen.until(r"Stra\?e \?\?\?\? \?\?")
            self.assertTrue(screen.text().isascii(), screen.text())
            screen.keys("q")
            self.expect_shell(screen)

    def test_hostile_names(self):
        # The daemon refuses controls in names; these it takes.
        self.run_job()
        self.give(self.submit("ok", name="Z" + "\u0301" * 60 + "algo"),
                  "気分気分気分")
        self.submit("ok", name="\u05e9\u05dc\u05d5\u05dd \u05d0 123")
        self.submit("ok", name="🚀" * 60)
        screen = self.top()
        screen.until(r"^> \w{8} RUNNING ")
        screen.until(r"^  \w{8} QUEUED 1 .* 気分気… +Zalgo$")
        screen.until(rf"^  \w{{8}} QUEUED 2 .* {harness.ACCOUNT} +\?{{4}} \? 123$")
        screen.until(rf"^  \w{{8}} QUEUED 3 .* {harness.ACCOUNT} +🚀+…$")
        for end in ("Down", "Enter"):  # drawn in other looks, and above
            screen.keys(end)
        screen.until(r"^job \w{26}  QUEUED.*  気分気分気分  Zalgo$")
        screen.until(r"^> \w{8} QUEUED 1 .* 気分気… +Zalgo$")
        screen.keys("q")
        self.expect_shell(screen)

    def test_daemon_killed_and_back(self):
        job = self.run_job()
        screen = self.top()
        screen.until(rf"^> {job[-8:]} RUNNING")
        self.host.kill()
        screen.until(r"^NO ANSWER for .*, trying again: ")
        screen.until(rf"^> {job[-8:]} ")
        screen.keys("?")  # keys are answered all the same
        screen.until(r"Ctrl-L")
        screen.keys("x")
        screen.until(r"^\? help")
        screen.keys("c")
        screen.until(r"\? y/n")
        screen.keys("y")
        screen.until(rf"Job {job} was not cancelled: ")
        self.host.start()
        screen.until(r"NO ANSWER", absent=True)
        step = int(screen.until(r"step (\d+)/20000").group(1))
        screen.until(rf"step (?!{step}/)\d+/20000")
        # A daemon that hangs does not hang top.
        self.host.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.host.process.send_signal, signal.SIGCONT)
        screen.keys("?")
        screen.until(r"Ctrl-L")
        screen.keys("x")
        screen.until(r"NO ANSWER for .* did not answer in time")
        screen.keys("q")
        self.expect_shell(screen)
        self.host.process.send_signal(signal.SIGCONT)

    def test_signals_leave_the_terminal_as_it_was(self):
        self.run_job()
        command = (f"{harness.BIN}/mpsctl --state-dir {self.host.state_dir} "
                   "top; echo exit$?")
        screen = self.top()
        screen.until(r"^> \w{8} RUNNING")
        screen.keys("q")
        endings = {"C-c": 130, signal.SIGINT: 130,
                   signal.SIGTERM: 128 + signal.SIGTERM,
                   signal.SIGHUP: 128 + signal.SIGHUP,
                   signal.SIGSEGV: 128 + signal.SIGSEGV,
                   signal.SIGABRT: 128 + signal.SIGABRT}
        for ending, code in endings.items():
            self.expect_shell(screen)
            screen.type(f"clear; {command}")
            screen.until(r"^> \w{8} RUNNING")
            if isinstance(ending, str):
                screen.keys(ending)
            else:
                os.kill(screen.pid("mpsctl"), ending)
            screen.until(rf"^exit{code}\b")

    def test_suspended_and_continued(self):
        self.run_job()
        screen = self.top()
        for stop in ("C-z", signal.SIGTSTP, signal.SIGSTOP):
            screen.until(r"^> \w{8} RUNNING")
            if isinstance(stop, str):
                screen.keys(stop)
            else:
                os.kill(screen.pid("mpsctl"), stop)
            if stop == signal.SIGSTOP:
                # Nobody can catch it: the terminal stays as top has it, in
                # which Enter ends no line.
                screen.until(r"Stopped")
                screen.tmux("send-keys", "-l", "fg")
                screen.keys("C-j")
                screen.until(r"Stopped", absent=True)
            else:
                self.expect_shell(screen)
                screen.type("fg")
            screen.until(r"^> \w{8} RUNNING")
            screen.until(r"^\? help .* quit *$")
        screen.keys("q")
        self.expect_shell(screen)

    def test_fifty_jobs(self):
        self.run_job()
        ids = self.queue(50)
        screen = self.top()
        screen.until(r"1 running, 50 queued")
        screen.until(r"jobs 51 of 51")
        screen.keys("End")
        screen.until(rf"^> {ids[-1][-8:]} QUEUED 50")
        screen.keys("PageUp")
        screen.until(rf"^> {ids[-1][-8:]}", absent=True)
        screen.keys("Home")
        screen.until(r"^> \w{8} RUNNING")
        screen.keys("q")
        self.expect_shell(screen)

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_ten_thousand_jobs(self):
        self.run_job()
        queued = self.submit("ok")
        self.host.kill()
        self.copy_job(queued, 10_000)
        self.host.start()
        screen = self.top()
        screen.until(r"1 running, 10001 queued")
        screen.until(r"jobs 10,002 of 10,002, by queue")
        screen.keys("End")
        screen.until(r"^> \w{8} QUEUED 1000\d")
        begin = time.monotonic()
        screen.keys("s", "Home", "End", "r", "s", "?")
        screen.until(r"Ctrl-L")
        self.assertLess(time.monotonic() - begin, 30)
        screen.keys("x", "Home")
        pid = screen.pid("mpsctl")
        before = cpu_seconds(pid)
        time.sleep(IDLE_SECONDS)
        used = cpu_seconds(pid) - before
        print(f"top beside 10,000 jobs: {used:.2f} CPU seconds in "
              f"{IDLE_SECONDS} s, {resident_bytes(pid) / 1e6:.0f} MB resident",
              flush=True)
        self.assertLess(used, MOST_IDLE_SHARE * IDLE_SECONDS)
        self.assertLess(resident_bytes(pid), MOST_RESIDENT_BYTES)
        screen.keys("q")
        self.expect_shell(screen)

    def give(self, job, owner):
        """Makes a queued job another's, which the API never does."""
        with contextlib.closing(sqlite3.connect(
                self.host.state_dir / "mpsd.db", timeout=60)) as database:
            database.execute("UPDATE jobs SET owner = ? WHERE id = ?",
                             (owner, job))
            database.commit()

    def copy_job(self, job, count):
        """Puts more rows like a job's into the database of a daemon that does
        not run."""
        with contextlib.closing(sqlite3.connect(
                self.host.state_dir / "mpsd.db")) as database:
            columns = [c[1] for c in database.execute(
                "PRAGMA table_info(jobs)")
                if c[1] not in ("number", "id", "idempotency_key", "owner_key")]
            names = ", ".join(columns)
            database.executemany(
                f"INSERT INTO jobs (id, {names}) "
                f"SELECT ?, {names} FROM jobs WHERE id = ?",
                [(f"{job[:-5]}{i:05d}", job) for i in range(count)])
            database.commit()


if __name__ == "__main__":
    unittest.main()
