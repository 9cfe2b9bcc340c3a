# SPDX-License-Identifier: Apache-2.0
"""How long `mpsctl log search` takes with many records, with every kind of
term, over the unix socket, mpsctl's own start included (built with the tests),
and how many bytes one record takes in the database:

  MPSD_BIN_DIR=build/release/bin python3 tests/bench/logbook.py

Beside the time by the clock it prints mpsd's share in CPU time, which a busy
machine does not change. One job is run by the fake worker, and its record
multiplied in the database of the stopped daemon. Exit status 1 where a median
of CPU time is beyond --most-ms."""

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
from many_jobs import cpu_ms, job_id  # noqa: E402

QUERIES = {
    "the latest": "",
    "a model and a loss": "model~qwen eval_loss<1.0 since:30d",
    "a loss of few": "eval_loss<0.0001",
    "a number of none": "steps>1000000",
    "a text in a column of none": "model~nowhere",
    "an owner": "owner=user7",
    "no owner": "owner=nobody",
    "a state": "state=failed",
    "a kind of none": "kind=parity",
    "a metric": "metric.accuracy>0.99",
    "a metric of none": "metric.f1>0.1",
    "a label": "label.team=cv",
    "a label of none": "label.team=none",
    "a tag of many": "tag:baseline",
    "a tag of few": "tag:rare",
    "a text of many": "moods",
    "a text of few": "99999",
    "a text of none": "zzzz",
    "two texts": "moods 99999",
    "a note": "\"too hot\"",
    "long ago": "until:29d",
    "text, tag, owner, loss": "moods tag:baseline owner=user7 eval_loss<1",
}


def pages(database):
    return database.execute("PRAGMA page_count").fetchone()[0]


def columns_of(database, table):
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def insert(database, table, row):
    database.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES "
        f"({', '.join('?' * len(row))})", list(row.values()))


def multiply(path, records):
    """Adds copies of the one record; returns the bytes that each takes."""
    rng = random.Random(7)
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA cache_size=-400000")  # KiB
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = pages(database)
    names = columns_of(database, "records")
    template = dict(zip(names, database.execute(
        "SELECT * FROM records").fetchone()))
    body, = database.execute("SELECT body FROM record_bodies").fetchone()
    texts, = database.execute("SELECT texts FROM record_text_rows").fetchone()
    now = int(time.time() * 1e6)
    step = 30 * 86400 * 10**6 // records  # a month of them
    with database:
        for i in range(records):
            number = i + 2
            new = job_id((now - (records - i) * step) // 1000, rng)
            name = f"sft-{rng.choice(['support', 'moods', 'legal'])}-{i}"
            model = rng.choice(["Qwen/Qwen2.5-0.5B", "meta/Llama-3.2-1B"])
            insert(database, "records", {
                **template, "number": number, "id": new, "name": name,
                "owner": f"user{i % 50}", "model": model,
                "end_time_us": now - (records - i) * step,
                "state": rng.choice([3, 3, 3, 4, 5]),
                "eval_loss": rng.random() * 3 if i % 5 else None})
            database.execute("INSERT INTO record_bodies VALUES (?, ?)",
                             (number, body))
            database.execute("INSERT INTO record_metrics VALUES (?, ?, ?)",
                             (number, "accuracy", rng.random()))
            database.execute("INSERT INTO record_labels VALUES (?, ?, ?)",
                             (number, "team", "nlp" if i % 5 == 0 else "cv"))
            place = number * 256
            rows = [(place, texts.replace(template["id"], new).replace(
                template["name"], f"{name}\n{model}"))]
            if i % 2 == 0:
                database.execute("INSERT INTO record_tags VALUES (?, ?)",
                                 ("baseline", number))
            if i % 10000 == 0:
                database.execute("INSERT INTO record_tags VALUES (?, ?)",
                                 ("rare", number))
            if i % 100 == 0:
                database.execute(
                    "INSERT INTO record_notes VALUES (?, 1, ?, ?, ?, 1)",
                    (number, now, "eve", "the machine was too hot"))
                rows.append((place + 1, "eve\nthe machine was too hot"))
            database.executemany("INSERT INTO record_text_rows VALUES (?, ?)",
                                 rows)
            database.executemany(
                "INSERT INTO record_texts (rowid, texts) VALUES (?, ?)", rows)
    with database:
        database.execute(
            "INSERT INTO record_texts (record_texts) VALUES ('optimize')")
    size, = database.execute("PRAGMA page_size").fetchone()
    each = (pages(database) - before) * size / records
    database.close()
    return each


def measure(daemon, query, times):
    clock, cpu = [], []
    for _ in range(times + 1):
        began, used = time.perf_counter(), cpu_ms(daemon.process.pid)
        result = daemon.ctl("log", "search", query)
        clock.append((time.perf_counter() - began) * 1e3)
        cpu.append(cpu_ms(daemon.process.pid) - used)
        if result.returncode != 0:
            raise SystemExit(f"{query}: {result.stderr}")
    # The first one reads the disk.
    rows = max(0, len(result.stdout.splitlines()) - 1)
    return statistics.median(clock[1:]), statistics.median(cpu[1:]), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--most-ms", type=float, default=50)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd"))
    daemon = harness.Daemon(folder / "state", worker="fake_worker")
    slow = []
    try:
        harness.write_model(folder / "model")
        daemon.start()
        job = daemon.submit(harness.write_job(folder))["id"]
        daemon.finish(job)
        daemon.ctl_json("log", "show", job)
        daemon.terminate()
        each = multiply(folder / "state" / "mpsd.db", options.records)
        print(f"{options.records} records, {each / 1000:.1f} kB each")
        daemon.start()
        print(f"{'':28} {'clock':>9} {'mpsd CPU':>9} {'rows':>5}")
        for what, query in QUERIES.items():
            clock, cpu, rows = measure(daemon, query or "since:99d",
                                       options.times)
            print(f"{what:28} {clock:6.1f} ms {cpu:6.1f} ms {rows:5}")
            if cpu > options.most_ms:
                slow.append(what)
    finally:
        daemon.close()
        shutil.rmtree(folder, ignore_errors=True)
    if slow:
        sys.exit(f"beyond {options.most_ms} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
