# SPDX-License-Identifier: Apache-2.0
"""An hour at five Macs in a few minutes, before a real Prometheus with the
rules of deploy/prometheus and a real Alertmanager: jobs that succeed, fail,
hang, pause, are tried again and run out of memory, a device that another process
holds, a disk that fills, mpsd killed. Every alert has to fire when its cause is
there, to resolve after it, to reach the webhook, and never to fire otherwise. A
machine that is too busy makes causes of its own, as a worker that is not heard;
scrapes that take a second, and fail, are counted and excuse MpsdDown.

The programs are mpsd and mpsctl of MPSD_BIN_DIR; worker.py plays the jobs. Time
runs FACTOR times faster in the rules alone: monitoring.py divides their durations.
One Mac is drained for more than eight hours, so that the run takes nine minutes.

usage: hour.py [--keep] [--scene NAME]…
  --keep   afterwards Prometheus keeps running, with all that it recorded, until Enter
  --scene  this scene alone; may be repeated"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import monitoring
import scenes
from machine import FACTOR, Machine, harness

INTERVAL = 1     # s, between scrapes
SLACK = 20       # s, that Prometheus and a busy machine may take
INFO_WAIT = 5    # s, the longest group_wait of alertmanager.yml by FACTOR
SKIPPED = 77     # as ctest is set to read it
FILLED = 1060 << 20  # bytes of the small disk: GIB and a little more
HEALTHY = 8 << 30    # bytes of the disk of all others
SMALL_DISK = "HOUR_MAY_MOUNT"  # set where a small disk can be mounted


class Expected:
    """An alert that has to fire from now on, and to resolve once it is over."""

    def __init__(self, hour, machine, alert, labels):
        self.hour, self.alert, self.labels = hour, alert, labels
        self.machine = machine.name if machine else None
        self.begin, self.end = time.time(), None
        self.must_fire = True

    def __str__(self):
        return f"{self.alert} on {self.machine} {self.labels or ''}"

    def matches(self, labels):
        wanted = {"alertname": self.alert, **self.labels}
        if self.machine:
            wanted["instance"] = self.machine
        return wanted.items() <= labels.items()

    def fires(self, within):
        """And is notified."""
        self.hour.until(self.fires_now, f"{self} does not fire", within + SLACK)
        self.hour.until(lambda: self.arrived("firing"), f"no notice of {self}",
                        INFO_WAIT + SLACK)

    def arrived(self, status):
        return any(alert["status"] == status and self.matches(alert["labels"])
                   for alert in self.hour.monitoring.webhook.alerts())

    def over(self, within):
        """Its cause is gone: it has to resolve within this many seconds."""
        self.end = time.time() + within + SLACK

    def fires_now(self):
        return any(self.matches(labels) for labels, _ in
                   self.hour.monitoring.query('ALERTS{alertstate="firing"}'))


class Hour:
    def __init__(self, folder):
        self.folder = folder
        self.monitoring = monitoring.Monitoring(folder, FACTOR, INTERVAL)
        self.machines, self.expected, self.failures = {}, [], []
        self.excused = set()
        self.begin = None

    def machine(self, name, *options, **more):
        machine = Machine(self, name, *options, **more)
        self.machines[name] = machine
        return machine

    def observe(self):
        self.monitoring.observe({m.name: (m.scheme, m.address)
                                 for m in self.machines.values()})

    def expect(self, machine, alert, **labels):
        expected = Expected(self, machine, alert, labels)
        self.expected.append(expected)
        return expected

    def allow(self, machine, alert, within):
        """It may fire from now on for this many seconds."""
        allowed = self.expect(machine, alert)
        allowed.must_fire = False
        allowed.over(within)

    def until(self, condition, what, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"after {seconds:.0f} s: {what}")
            time.sleep(0.2)

    def say(self, text):
        print(f"{time.time() - self.begin:6.1f} s  {text}", flush=True)

    def skip(self, scene, alert, why):
        self.excused.add(alert)
        self.say(f"SKIPPED: {scene.__name__}: {why}")

    def run(self, several):
        """One scene after the other, each with its machine."""
        for scene, machine in several:
            self.say(f"{machine.name}: {scene.__name__}")
            try:
                scene(self, machine)
            except Exception as error:  # the other scenes continue
                text = f"{scene.__name__} on {machine.name}: {error}"
                self.say(text)
                self.failures.append(text)
                if not isinstance(error, AssertionError):
                    traceback.print_exc()

    def play(self, *lists):
        """All lists of scenes at the same time."""
        threads = [threading.Thread(target=self.run, args=(several,))
                   for several in lists]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def missing(self):
        """What the webhook has not heard yet."""
        return [f"the webhook never heard that {expected} is {status}"
                for expected in self.expected if expected.must_fire
                for status in ("firing", "resolved")
                if not expected.arrived(status)]

    def late_scrapes(self, now):
        """{machine: when scrapes of it ran out of time}. Those of a machine
        that is down fail at once."""
        found = self.monitoring.history(
            f'scrape_duration_seconds{{job="mpsd"}} > {0.9 * INTERVAL}',
            self.begin, now)
        return {labels["instance"]: times for labels, times in found}

    def judge(self):
        """What fired and should not have, and what did not arrive."""
        problems = list(self.failures) + self.monitoring.rule_errors()
        now = time.time()
        fired = self.monitoring.history('ALERTS{alertstate="firing"}',
                                        self.begin, now)
        late = self.late_scrapes(now)
        for labels, times in fired:
            windows = [(e.begin, e.end or now) for e in self.expected
                       if e.matches(labels)]
            if labels["alertname"] == "MpsdDown":
                windows += [(t, t + 2 * INTERVAL + 120 / FACTOR)
                            for t in late.get(labels["instance"], [])]
            outside = [t for t in times if not any(
                begin - INTERVAL <= t <= end + INTERVAL
                for begin, end in windows)]
            if outside:
                problems.append(
                    f"fired without a cause, {outside[0] - self.begin:.1f} to "
                    f"{outside[-1] - self.begin:.1f} s: {labels}")
        for expected in self.expected:
            if not expected.must_fire:
                continue
            if not any(expected.matches(labels) for labels, _ in fired):
                problems.append(f"{expected} never fired")
        for alert in self.monitoring.webhook.alerts():
            text = " ".join(alert["annotations"].values())
            if re.search(r"<no value>|<error|\{\{|%!", text):
                problems.append(f"an alert says: {text}")
        return sorted({*problems, *self.missing()})

    def silent_alerts(self):
        """Those that no scene makes fire."""
        text = (self.monitoring.rules / "mpsd_alerts.yml").read_text()
        return sorted(set(re.findall(r"alert: (\w+)", text))
                      - {e.alert for e in self.expected} - self.excused)


def play(hour, only):
    hour.over = threading.Event()
    studio, laptop = hour.machine("studio"), hour.machine("laptop")
    disk = hour.folder / "mini" / "disk"
    authority = monitoring.Authority(hour.folder / "authority")
    shutil.copy(authority.certificate, hour.monitoring.rules / "mpsd_ca.pem")
    token = hour.monitoring.rules / "mpsd_token"
    token.touch(0o600)
    token.write_text("0123456789abcdef" * 4 + "\n")
    mini = hour.machine("mini", *authority.options(), "--metrics-token-file",
                        str(token), "--listen",
                        f"127.0.0.1:{harness.free_port()}",
                        # What has a port reads no other folders.
                        "--model-root", str(hour.folder / "mini"),
                        state=disk / "state", selftest=True)
    mini.scheme, mini.authority = "https", authority
    healthy, attic = hour.machine("healthy"), hour.machine("attic")
    disk.mkdir()
    if SMALL_DISK in os.environ:
        mount(disk, FILLED)
    scenes.age(mini)
    for mac in (studio, laptop, mini, healthy, attic):
        mac.start()
    hour.monitoring.start()
    hour.observe()
    hour.until(lambda: len(hour.monitoring.query("up == 1")) == 5, "no scrape")
    hour.begin = time.time()
    hour.allow(None, "MpsdNotScraped", 1)  # it had none until now
    if not only or "a_neglected_mac" in only:
        scenes.expect_what_is_old(hour, mini)
    hour.say(f"Prometheus is at {hour.monitoring.url}")
    lists = []
    for name, several in scenes.SCENES.items():
        chosen = []
        for scene in several:
            if only and scene.__name__ not in only:
                continue
            if (scene is scenes.a_disk_that_fills
                    and SMALL_DISK not in os.environ):
                hour.skip(scene, "MpsdDiskFullSoon",
                          "no small disk can be mounted here")
            else:
                chosen.append((scene, hour.machines[name]))
        lists.append(chosen)
    steady = threading.Thread(target=hour.run, args=([(scenes.nothing_happens,
                                                       healthy)],))
    steady.start()
    hour.play(*lists)
    last = max((e.end or 0 for e in hour.expected), default=0)
    time.sleep(max(0, last - time.time()))
    if not only:
        hour.say("no_target")
        scenes.no_target(hour)
        time.sleep(5 + 3 + SLACK)
    hour.over.set()
    steady.join()
    # What Alertmanager still has to send: its group_interval, by FACTOR.
    deadline = time.monotonic() + 30
    while hour.missing() and time.monotonic() < deadline:
        time.sleep(0.5)


def mount(folder, size):
    """A disk of its own, in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none",
                    str(folder)], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--scene", action="append", default=[])
    options = parser.parse_args()
    missing = [name for name, path in (
        ("prometheus", shutil.which("prometheus")),
        ("prometheus-alertmanager", monitoring.alertmanager())) if not path]
    if missing:
        print(f"SKIPPED: no {' and no '.join(missing)}; deploy/setup.sh --tests "
              "installs it where a package has it")
        sys.exit(SKIPPED)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hour"))
    if SMALL_DISK in os.environ:
        mount(folder, HEALTHY)  # no other program's writes slow it down
    hour = Hour(folder)
    try:
        play(hour, options.scene)
        problems = hour.judge()
        if not options.scene:
            problems += [f"no scene has {alert}"
                         for alert in hour.silent_alerts()]
        for problem in problems:
            print(f"PROBLEM: {problem}")
        late = sum(map(len, hour.late_scrapes(time.time()).values()))
        if late:
            print(f"This machine was too busy for {late * monitoring.STEP:.0f} s of "
                  "scrapes: run the hour again on one that is idle")
        sent = len(hour.monitoring.webhook.alerts())
        print(f"{len(hour.expected)} expectations, {sent} notifications, "
              f"{len(problems)} problem(s)")
        if options.keep:
            keep(hour)
        sys.exit(1 if problems else 0)
    finally:
        for machine in hour.machines.values():
            if machine.daemon:
                machine.daemon.close()
        hour.monitoring.close()
        if SMALL_DISK in os.environ:
            for mounted in (folder / "mini" / "disk", folder):
                subprocess.run(["umount", "-l", str(mounted)], check=False,
                               capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def keep(hour):
    print(json.dumps({"prometheus": hour.monitoring.url, "begin": hour.begin,
                      "end": time.time(),
                      "instances": sorted(hour.machines)}), flush=True)
    print("Prometheus runs until Enter is pressed.", flush=True)
    if not sys.stdin.readline():  # no terminal
        signal.pause()


def with_a_disk_of_its_own():
    """Runs this program in a mount namespace, where the system lets it."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        allowed = subprocess.run([*namespace, "true"], check=False,
                                 capture_output=True).returncode == 0
    except OSError:
        allowed = False
    if allowed:
        os.environ[SMALL_DISK] = "1"
        os.execvp(namespace[0], [*namespace, sys.executable, "-B", *sys.argv])


if __name__ == "__main__":
    if SMALL_DISK not in os.environ:
        with_a_disk_of_its_own()
    main()
