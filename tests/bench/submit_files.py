# SPDX-License-Identifier: Apache-2.0
"""How long a job of many small files takes from `mpsctl submit` to QUEUED, on a
drive that takes some milliseconds for every flush (Linux; built with the
tests):

  MPSD_BIN_DIR=build/release/bin python3 tests/bench/submit_files.py

The first submit uploads the files and queues the job, the second finds them
there. --fsync-ms 0 leaves the drive as it is."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from busy_test import SLOW_SYNC, VIT  # noqa: E402


def write_images(folder, files):
    for i in range(files):
        path = folder / "images" / str(i % 10) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"image %06d" % i)  # 12 bytes
    (folder / "vit").mkdir()
    (folder / "vit/config.json").write_text(json.dumps(VIT))
    job = folder / "job.json"
    job.write_text(json.dumps({
        "model": str(folder / "vit"), "task": "IMAGE_CLS", "device": "cpu",
        "fine_tune_type": "full", "from_scratch": True,
        "dataset": {"train": ["images"]}, "training": {"max_steps": 1}}))
    return job


class Submits:
    def __init__(self, folder, fsync_ms):
        self.flush_log = folder / "flushes"
        self.daemon = harness.Daemon(
            folder / "state", "--log-stderr", "off", worker="fake_worker",
            env={"LD_PRELOAD": str(SLOW_SYNC), "SLOW_SYNC_MS": str(fsync_ms),
                 "SLOW_SYNC_LOG": str(self.flush_log)})
        self.daemon.start()

    def count(self):
        return self.flush_log.read_bytes().count(b"\n")

    def time(self, what, job):
        before, begin = self.count(), time.monotonic()
        run = subprocess.run(
            [harness.BIN / "mpsctl", "--state-dir", self.daemon.state_dir,
             "submit", "--detach", job], capture_output=True, text=True,
            env=harness.environment(), check=False)
        print(f"{what:28} {time.monotonic() - begin:7.1f} s "
              f"{self.count() - before:7} flushes  "
              f"{(run.stdout or run.stderr).splitlines()[0]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8000)
    parser.add_argument("--fsync-ms", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = pathlib.Path(name)
        job = write_images(folder, args.files)
        submits = Submits(folder, args.fsync_ms)
        try:
            submits.time("uploaded and queued", job)
            submits.time("queued, files there already", job)
        finally:
            submits.daemon.close()


if __name__ == "__main__":
    main()
