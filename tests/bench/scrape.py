# SPDX-License-Identifier: Apache-2.0
"""How long Prometheus waits for a scrape of a daemon with the history of many
jobs (built with the tests):

  MPSD_BIN_DIR=build/release/bin python3 tests/bench/scrape.py [--jobs 1000]

The jobs run in the fake worker. Scrapes are timed with no job, while the series
of every job that ended linger, and by a daemon that finds the jobs in its
database; one after the other, and by fifty scrapers at once, of which each has a
connection for each scrape."""

import argparse
import http.client
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

SCRAPES = 200
SCRAPERS = 50
SCRAPES_OF_ONE = 20


def scrape(address):
    """(seconds, text) of one scrape on a connection of its own."""
    begin = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return time.perf_counter() - begin, text


def series(text):
    return sum(not line.startswith("#") for line in text.splitlines())


def show(what, seconds, text):
    milliseconds = sorted(1000 * s for s in seconds)
    print(f"{what:24} median {statistics.median(milliseconds):6.2f} ms, "
          f"99 % {milliseconds[int(0.99 * len(milliseconds))]:6.2f} ms, "
          f"{series(text)} series, {len(text)} bytes", flush=True)


def measure(what, address):
    times = [scrape(address) for _ in range(SCRAPES)]
    show(what, [t for t, _ in times], times[-1][1])
    begin = time.perf_counter()
    times = sum(harness.at_once(
        lambda _: [scrape(address) for _ in range(SCRAPES_OF_ONE)],
        range(SCRAPERS)), [])
    seconds = time.perf_counter() - begin
    show(f"  {SCRAPERS} scrapers at once", [t for t, _ in times], times[-1][1])
    print(f"{'':24} {len(times) / seconds:.0f} scrapes a second", flush=True)


def run_jobs(daemon, folder, jobs):
    harness.write_model(folder / "model")
    job = harness.write_job(folder, dataset={"eval": None})
    for _ in range(jobs):
        daemon.submit(job)
    while True:
        info, = daemon.ctl_json("info")
        if info["queued_jobs"] + info["running_jobs"] == 0:
            return
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mpsd-scrape-") as name:
        folder = pathlib.Path(name)
        daemon = harness.Daemon(
            folder / "state", "--log-stderr", "off",
            "--metrics-linger-seconds", "86400", worker="fake_worker").start()

        def address():
            info, = daemon.ctl_json("info")
            return info["metrics_address"]

        try:
            measure("no job", address())
            run_jobs(daemon, folder, options.jobs)
            measure(f"{options.jobs} jobs that linger", address())
            daemon.terminate()
            daemon.start()
            measure(f"{options.jobs} jobs of the past", address())
        finally:
            daemon.close()


if __name__ == "__main__":
    main()
