# SPDX-License-Identifier: Apache-2.0
"""How long `mpsctl list`, `queue` and `gc --dry-run` take with many jobs: in
every order, with every filter, over the unix socket, mpsctl's own start
included (built with the tests):

  MPSD_BIN_DIR=build/release/bin python3 tests/bench/many_jobs.py

It prints the time by the clock and mpsd's share in CPU time, which a busy
machine does not change. A job is submitted to a drained mpsd, and its row
multiplied in the database of the stopped daemon: --jobs that have ended and as
many that are queued. Exit status 1 where a median is beyond --most-ms."""

import argparse
import pathlib
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

# Crockford's base 32, of which ids are made.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ORDERS = ["create_time", "end_time", "name", "owner", "state", "priority",
          "eval_loss", "device_seconds", "stored_bytes"]
FILTERS = {
    "an owner": ["--owner", "user7"], "no owner": ["--owner", "nobody"],
    "a state": ["--state", "failed"],
    "two states": ["--state", "failed", "--state", "cancelled"],
    "a label": ["--label", "team=cv"],
    "two labels": ["--label", "team=cv", "--label", "run=3"],
    "a week": ["--since", "10d", "--until", "3d"],
    "ended": ["--ended-since", "1d"], "a model": ["--model", "org/model-2"],
    "held": ["--held"], "pinned": ["--pinned"],
    "a text of many": ["--text", "moods"], "a text of few": ["--text", "99999"],
    # Letters alone stand in some id.
    "a text of none": ["--text", "@@@@"],
    "a short text": ["--text", "cv"], "a short text of none": ["--text", "@@"],
    "a short text, not ASCII": ["--text", "\u00e9"],
    "text, label, state, by loss": [
        "--text", "moods", "--label", "team=cv", "--state", "succeeded",
        "--sort", "eval_loss"],
    "a label by loss": ["--label", "team=cv", "--sort", "-eval_loss"],
    "a text by loss": ["--text", "sft", "--sort", "eval_loss"],
    "the 100th page": ["--page", "100"],
    "counted": ["--count"],
    "counted with a label": ["--count", "--label", "team=cv"],
    "counted with a text": ["--count", "--text", "moods"],
}


def job_id(number, rng):
    """As an id of the daemon, later ones greater."""
    text = ""
    for _ in range(10):
        text, number = ALPHABET[number % 32] + text, number // 32
    return text + "".join(rng.choices(ALPHABET, k=16))


class Multiplied:
    """The database of a stopped daemon with one job, which becomes many."""

    def __init__(self, path):
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA synchronous=OFF")
        self.database.execute("PRAGMA cache_size=-400000")  # KiB
        self.rng = random.Random(7)
        self.columns = [
            row[1] for row in self.database.execute("PRAGMA table_info(jobs)")
            if row[1] != "number"]
        row = self.database.execute(
            f"SELECT {', '.join(self.columns)} FROM jobs").fetchone()
        self.template = dict(zip(self.columns, row))
        self.events = self.database.execute(
            "SELECT sequence, time_us, kind, body FROM events").fetchall()
        self.next = 0

    def add(self, jobs, queued):
        now = int(time.time() * 1e6)
        step = 30 * 86400 * 10**6 // jobs  # a month of them
        with self.database:
            for i in range(jobs):
                self.add_one(i, now - (jobs - i) * step, queued)

    def add_one(self, i, created, queued):
        rng = self.rng
        state = 1 if queued else rng.choice([3, 3, 3, 3, 4, 5])
        new = job_id(created // 1000 * 4 + self.next % 4, rng)
        # As Submit writes it: paths of uploads lie in the job's own folder.
        row = {**self.template,
               "id": new, "spec_json": self.template["spec_json"].replace(
                   self.template["id"], new),
               "name": f"sft-{rng.choice(['support', 'moods', 'legal'])}-{i}",
               "owner": f"user{i % 50}", "owner_key": None, "state": state,
               "create_time_us": created, "priority": i % 3 - 1, "held": 0,
               "hold_reason": "", "pinned": int(i % 1000 == 0),
               "model": f"org/model-{i % 4}",
               "stored_bytes": rng.randrange(10**9)}
        self.next += 1
        if not queued:
            row.update({
                "attempt": 1, "end_time_us": created + 600 * 10**6,
                "start_time_us": created + 10**6,
                "eval_loss_after": rng.random() * 3 if i % 5 else None,
                "device_us": rng.randrange(10**10),
                "message": "line 33: expected a string in messages[2].content"
                           if state == 4 else ""})
        number = self.database.execute(
            f"INSERT INTO jobs ({', '.join(self.columns)}) VALUES "
            f"({', '.join('?' * len(self.columns))})",
            [row[column] for column in self.columns]).lastrowid
        self.database.executemany(
            "INSERT INTO labels (job, key, value) VALUES (?, ?, ?)",
            [(number, "team", "nlp" if i % 5 == 0 else "cv"),
             (number, "run", str(i % 7))])
        self.database.executemany(
            "INSERT INTO events (job, sequence, time_us, kind, body) "
            "VALUES (?, ?, ?, ?, ?)",
            [(number, *event) for event in self.events])

    def close(self):
        """Brings the texts after, as mpsd does with each change."""
        with self.database:
            self.database.execute(
                "INSERT OR REPLACE INTO job_text_rows "
                "SELECT * FROM job_texts_source")
            self.database.execute(
                "INSERT INTO job_texts (job_texts) VALUES ('rebuild')")
            self.database.execute("DELETE FROM job_texts_changed")
        self.database.close()


def cpu_ms(pid):
    """CPU time of the process so far; 0 if the system does not report it."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except OSError:  # the thread has just ended
            continue
    return total / 1e6


class Table:
    """Times each command, in turn, and prints medians."""

    def __init__(self, daemon, rounds, most_ms):
        self.daemon = daemon
        self.rounds = rounds
        self.most_ms = most_ms
        self.slow = []

    def print(self, title, commands):
        print(f"\n{title}", flush=True)
        times = {name: [] for name in commands}
        daemon = {name: [] for name in commands}
        lines = {}
        for _ in range(self.rounds):
            for name, command in commands.items():
                cpu = cpu_ms(self.daemon.process.pid)
                start = time.perf_counter()
                said = self.daemon.says(*command)
                times[name].append((time.perf_counter() - start) * 1000)
                daemon[name].append(cpu_ms(self.daemon.process.pid) - cpu)
                lines[name] = said.count("\n")
        for name, values in times.items():
            median = statistics.median(values)
            print(f"  {name:30} median {median:6.1f} ms  least "
                  f"{min(values):6.1f}  most {max(values):6.1f}  mpsd's CPU "
                  f"{statistics.median(daemon[name]):6.1f}  "
                  f"{lines[name]} lines", flush=True)
            if median > self.most_ms:
                self.slow.append(name)


def make(folder, jobs):
    """A state folder with the jobs; its daemon is drained."""
    state = folder / "state"
    harness.write_model(folder / "model")
    daemon = harness.Daemon(state, worker="fake_worker").start()
    try:
        daemon.says("admin", "drain")
        daemon.submit(harness.write_job(folder))
    finally:
        daemon.close()
    many = Multiplied(state / "mpsd.db")
    start = time.monotonic()
    many.add(jobs, queued=False)
    many.add(jobs, queued=True)
    many.close()
    print(f"made in {time.monotonic() - start:.0f} s, "
          f"{(state / 'mpsd.db').stat().st_size / 1e6:.0f} MB", flush=True)
    return daemon


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most-ms", type=float, default=50)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
    try:
        daemon = make(folder, options.jobs)
        start = time.monotonic()
        daemon.start()
        print(f"mpsd starts in {time.monotonic() - start:.1f} s")
        try:
            table = Table(daemon, options.rounds, options.most_ms)
            table.print("mpsctl's own start", {"--version": ["--version"]})
            table.print("mpsctl list, each order", {
                way + order: ["list", "--sort", way + order]
                for order in ORDERS for way in ("", "-")})
            table.print("mpsctl list, each filter", {
                name: ["list", *filter] for name, filter in FILTERS.items()})
            table.print("other verbs", {
                "queue": ["queue"], "info": ["info"],
                "gc --dry-run": ["admin", "gc", "--dry-run"]})
        finally:
            daemon.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if table.slow:
        print(f"\nbeyond {options.most_ms:g} ms: {', '.join(table.slow)}")
    return 1 if table.slow else 0


if __name__ == "__main__":
    sys.exit(main())
