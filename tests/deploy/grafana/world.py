# SPDX-License-Identifier: Apache-2.0
"""Two Macs and a Prometheus, all real except the worker and the machine: one
trains, pauses on battery, retries; the other holds its queue, for its device
fails the self-test. Prometheus scrapes both under the job "mpsd"."""

import json
import pathlib
import sys
import tempfile
import time

from expressions import ROOT

sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402  (the path comes first)
import prometheus  # noqa: E402

MAC = {"power_source": "mains", "battery_ratio": 0.5, "thermal": "moderate",
       "memory_pressure": "warn", "low_power_mode": False, "gpu_resets": 1,
       "swap_used_bytes": 1 << 20, "gpu_utilization_ratio": 0.7,
       "wired_limit_bytes": 1 << 34, "user_idle_seconds": 5}
STEPS = 600  # of 20 ms each
NO_JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class World:
    def __init__(self):
        self.held = tempfile.TemporaryDirectory(prefix="mpsd")
        self.folder = pathlib.Path(self.held.name)
        self.begun = time.time()
        self.closing = []
        try:
            self._start()
            self._live()
        except BaseException:
            self.close()
            raise
        self.ended = time.time()

    def close(self):
        for close in reversed(self.closing):
            close()
        self.held.cleanup()

    def _daemon(self, name, *options, selftest_status):
        folder = self.folder / name
        folder.mkdir()
        harness.write_model(folder / "model")
        # The verdict that a real worker writes when the device passes.
        (folder / "state").mkdir(mode=0o700)
        (folder / "state/selftest.json").write_text(
            json.dumps({"identity": {"device": "mps"}}))
        daemon = harness.Daemon(
            folder / "state", *options, worker="fake_worker", selftest=True,
            env={"FAKE_WORKER_SELFTEST": str(selftest_status)})
        self.closing.append(daemon.close)
        return daemon.start()

    def _machine_is(self, **changes):
        aside = self.folder / "host.new"
        aside.write_text(json.dumps({**MAC, **changes}))
        aside.rename(self.folder / "host.json")

    def _start(self):
        self._machine_is()
        self.mac = self._daemon(
            "mac", "--host-file", str(self.folder / "host.json"),
            "--host-interval-seconds", "0.05", "--pause-on-battery",
            "--pause-settle-seconds", "0.1", "--max-failures", "2",
            "--notify-command", "/bin/true", "--state-budget-bytes", "1TiB",
            selftest_status=0)
        self.broken = self._daemon("broken", selftest_status=1)
        self.instances = [
            daemon.ctl_json("info")[0]["metrics_address"]
            for daemon in (self.mac, self.broken)]
        self.prometheus = prometheus.Prometheus(
            self.folder / "prometheus", json.dumps({
                "global": {"scrape_interval": "500ms",
                           "scrape_timeout": "500ms"},
                "scrape_configs": [{"job_name": "mpsd", "static_configs": [
                    {"targets": self.instances}]}]}))
        self.closing.append(self.prometheus.close)
        self.prometheus.await_value("sum(up)", lambda up: up == 2)

    def _submit(self, daemon, mode, steps=5, **options):
        job = harness.write_job(daemon.state_dir.parent, called=f"fake:{mode}",
                                training={"max_steps": steps})
        words = [word for name, value in options.items()
                 for word in (f"--{name}", str(value))]
        return daemon.submit(job, *words)["id"]

    def _live(self):
        """A job that fails twice, one that runs to its end with a pause, one
        that waits; a quarter of a minute."""
        self._submit(self.broken, "ok")
        self.mac.ctl("show", NO_JOB)
        self.mac.finish(self._submit(self.mac, "crash-segv"))
        self.job = self._submit(self.mac, "mac", STEPS)
        second = self._submit(self.mac, "mac", STEPS, priority=-1)
        with self.mac.watch(self.job) as watch:
            watch.until(lambda e: e.get("progress", {}).get("step", 0)
                        > STEPS // 2 + 20)
            self._machine_is(power_source="battery")
            watch.until_note("paused")
            self.mac.ctl("show", NO_JOB)
            self.prometheus.await_value('mpsd_paused{reason="battery"} == 1')
            time.sleep(2)
            self._machine_is()
            watch.finish()
        self.prometheus.await_value(
            f'mpsd_job_last_step_timestamp_seconds{{job_id="{second}"}}')
        time.sleep(2)

    def filled_in(self, expression, instance=".+"):
        """The query with the values that Grafana puts in."""
        for name, value in (("$instance", instance), ("$job_id", self.job),
                            ("$__rate_interval", "4s"), ("$__interval", "4s"),
                            ("$__range", "10m")):
            expression = expression.replace(name, value)
        return expression

    def series(self, expression, **more):
        """The labels of the series that the query had while the world lived."""
        data = self.prometheus.ask(
            "query_range", query=self.filled_in(expression, **more),
            start=self.begun, end=self.ended, step=0.5)
        return [entry["metric"] for entry in data["result"]]
