# SPDX-License-Identifier: Apache-2.0
"""A Mac of the hour: an mpsd with a machine out of a file, whose jobs worker.py
plays."""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e"))
import harness  # noqa: E402

FACTOR = 60   # an hour is a minute
SILENCE = 30  # s, after which mpsd ends a worker; a busy machine needs some
GIB = 1 << 30

CALM = {"power_source": "mains", "battery_ratio": 0.9, "thermal": "nominal",
        "memory_pressure": "normal", "swap_used_bytes": 2 * GIB,
        "gpu_utilization_ratio": 0.9, "gpu_resets": 0,
        "wired_limit_bytes": 0, "user_idle_seconds": 600}


class Machine:
    """A Mac with an mpsd: a state folder, a host file, an address."""

    def __init__(self, hour, name, *options, state=None, selftest=False):
        self.hour, self.name = hour, name
        self.folder = hour.folder / name
        self.folder.mkdir()
        self.acts = self.folder / "acts"
        self.acts.mkdir()
        harness.write_model(self.folder / "model")
        self.host = self.folder / "host.json"
        self.lock = self.folder / "device.lock"
        self.lock.touch()
        self.is_(**CALM)
        self.address = f"127.0.0.1:{harness.free_port()}"
        self.options = options
        self.scheme = "http"  # of the metrics
        self.state = state or self.folder / "state"
        self.selftest = selftest
        self.daemon = None
        self.starts = []

    def start(self, *more, env=None):
        daemon = harness.Daemon(
            self.state, "--host-file", str(self.host),
            "--host-interval-seconds", "0.1", "--pause-on-battery",
            "--pause-settle-seconds", "0.2", "--pause-hold-seconds", "100",
            "--hang-timeout-seconds", str(SILENCE), "--stop-grace-seconds", "1",
            "--retry-backoff-max-seconds", "0.2",
            "--metrics-linger-seconds", str(600 / FACTOR),
            "--environment", f"HOUR_ACTS={self.acts}",
            *self.options, *more, worker=HERE / "worker.py",
            selftest=self.selftest, env=env)
        for option, value in (("--metrics-address", self.address),
                              ("--device-lock", str(self.lock))):
            daemon.command[daemon.command.index(option) + 1] = value
        daemon.output = self.folder / "mpsd.out"
        self.daemon = daemon.start()
        self.starts.append(time.monotonic())
        return self

    def restart(self, *more, env=None):
        """As a careful operator does it: not three times within half an hour."""
        if len(self.starts) > 1:
            time.sleep(max(0, self.starts[-2] + 1800 / FACTOR + 2
                           - time.monotonic()))
        # Prometheus may find it away for too long on a busy machine.
        self.hour.allow(self, "MpsdDown", 30)
        self.daemon.terminate()
        return self.start(*more, env=env)

    def is_(self, **state):
        """The machine's state, as mpsd reads it, is that of before except
        these values."""
        known = json.loads(self.host.read_text()) if self.host.exists() else {}
        aside = self.host.with_suffix(".new")
        aside.write_text(json.dumps({**known, **state}))
        aside.rename(self.host)

    def submit(self, name, *act, **changes):
        (self.acts / f"{name}.json").write_text(json.dumps(act))
        return self.daemon.submit(harness.write_job(
            self.folder, called=name, **changes))["id"]

    def state_of(self, job_id):
        return self.daemon.state(job_id)

    def finish(self, job_id, state="SUCCEEDED"):
        self.hour.until(lambda: self.state_of(job_id) in (
            "SUCCEEDED", "FAILED", "CANCELLED"), f"{job_id} has not ended", 150)
        job = self.daemon.show(job_id)
        if job["state"] != state:
            raise AssertionError(f"{self.name}: {job['name']} is "
                                 f"{job['state']}: {job['message']}")
        return job

    def runs(self, name, *act, **changes):
        """A whole job, to its end."""
        return self.finish(self.submit(name, *act, **changes))
