# SPDX-License-Identifier: Apache-2.0
"""What happens in the hour: each scene makes a cause, waits until its alert
fires, and takes the cause away. Times are those of the rules divided by
FACTOR."""

import contextlib
import fcntl
import os
import signal
import sqlite3
import threading
import time

from machine import FACTOR, GIB, SILENCE, harness

TRAINS = {"count": 25, "seconds": 0.2}


def a_calm_morning(hour, mac):
    """Nothing happens that an operator would have to know, though the machine
    goes from phase to phase for longer than an alert waits."""
    mac.runs("tiny-chat", ["load", 1], ["evaluate", 1], ["steps", TRAINS],
             ["save", 1], ["evaluate", 1], ["done"])
    mac.runs("long-evaluation", ["load", 18], ["steps", TRAINS],
             ["evaluate", 20], ["steps", TRAINS], ["save", 18],
             ["steps", TRAINS], ["done"])


def on_battery(hour, mac):
    job = mac.submit("commuter", ["load", 0.5], ["steps", TRAINS],
                     ["steps", {"count": 10}], ["done"])
    time.sleep(3)
    mac.is_(power_source="battery")
    hour.until(lambda: mac.daemon.show(job)["pause"], "no pause")
    time.sleep(22)
    mac.is_(power_source="mains")
    mac.finish(job)


def a_step_that_never_ends(hour, mac):
    job = mac.submit("stuck-step", ["load", 0.5], ["steps", TRAINS],
                     ["talk", 28], ["steps", {"count": 40, "seconds": 0.1}],
                     ["done"])
    stuck = hour.expect(mac, "MpsdJobNotAdvancing", job_id=job)
    stuck.fires(5 + 28)
    mac.finish(job)
    stuck.over(5)


def a_worker_that_falls_silent(hour, mac):
    silent = hour.expect(mac, "MpsdJobHung")
    stuck = hour.expect(mac, "MpsdJobNotAdvancing")
    job = mac.submit("silent", ["load", 0.5], ["steps", {"count": 5}],
                     ["save", 0.1], ["silent", 2 * SILENCE])
    stuck.fires(5 + 18)
    silent.fires(SILENCE)
    mac.daemon.ctl("cancel", "--now", job)
    stuck.over(5)
    silent.over(20)


def tried_again(hour, mac):
    again = hour.expect(mac, "MpsdJobRetries", **{"class": "job"})
    blocks = []
    for attempt in range(1, 5):
        blocks += [["steps", {"count": 3}], ["save", 0.1], ["crash", attempt]]
    mac.runs("flaky", ["load", 0.2], *blocks, ["done"])
    again.fires(5)
    again.over(62)


def failures(hour, mac):
    memory = hour.expect(mac, "MpsdJobOutOfMemory")
    loss = hour.expect(mac, "MpsdLossNotFinite")
    failing = hour.expect(mac, "MpsdJobsFail")
    for name, kind, text in (
            ("too-large", "out_of_memory", "MPS backend out of memory"),
            ("diverged", "non_finite", "the loss is NaN"),
            ("bad-row", "rejected", "train.jsonl:3: no field messages")):
        job = mac.submit(name, ["load", 0.2], ["steps", {"count": 3}],
                         ["fail", kind, text])
        mac.finish(job, "FAILED")
    memory.fires(5)
    loss.fires(5)
    failing.fires(5)
    memory.over(18)
    loss.over(18)
    failing.over(62)


def a_bad_run(hour, mac):
    """A loss that rises, memory that leaks, a GPU that waits."""
    rising = hour.expect(mac, "MpsdLossRising")
    leaking = hour.expect(mac, "MpsdMemoryRising")
    idle = hour.expect(mac, "MpsdGpuIdle")
    mac.is_(gpu_utilization_ratio=0.1)
    job = mac.submit(
        "leaky", ["load", 0.5],
        ["steps", {"count": 80, "epochs": 8, "loss": (3, 1),
                   "footprint": (3000, 4200), "data_wait": 0.8}],
        ["steps", {"count": 100, "epochs": 10, "loss": (1, 2.5),
                   "footprint": (4200, 5700), "data_wait": 0.8}],
        ["steps", {"count": 150, "epochs": 15, "loss": (2.5, 2.5),
                   "footprint": (5700, 7950), "data_wait": 0.8}], ["done"])
    leaking.fires(40)
    idle.fires(10)
    mac.is_(gpu_utilization_ratio=0.9)
    rising.fires(50)
    idle.over(20)
    mac.finish(job)
    rising.over(20)
    leaking.over(5)


def others_want_memory(hour, mac):
    job = mac.submit("roommate", ["load", 0.2], ["steps", {"count": 120}],
                     ["done"])
    hour.until(lambda: mac.state_of(job) == "RUNNING", "does not run")
    pressure = hour.expect(mac, "MpsdMemoryPressure")
    swapping = hour.expect(mac, "MpsdSwapping")
    mac.is_(memory_pressure="critical", swap_used_bytes=5 * GIB)
    pressure.fires(6)
    swapping.fires(6)
    mac.is_(memory_pressure="warn")
    pressure.over(3)
    mac.finish(job)
    mac.is_(memory_pressure="normal", swap_used_bytes=2 * GIB)
    swapping.over(33)


def a_hot_day(hour, mac):
    hot = hour.expect(mac, "MpsdHot")
    mac.is_(thermal="heavy")
    hot.fires(11)
    trapping = hour.expect(mac, "MpsdTooHot")
    mac.is_(thermal="trapping")
    trapping.fires(3)
    hot.over(3)
    mac.is_(thermal="nominal")
    trapping.over(3)


def somebody_elses_gpu(hour, mac):
    held = hour.expect(mac, "MpsdDeviceHeld")
    with open(mac.lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = mac.submit("waits-for-gpu", ["steps", {"count": 5}], ["done"])
        held.fires(32)
    mac.finish(job)
    held.over(5)


def a_volume_away(hour, mac):
    other, away = mac.folder / "other", mac.folder / "away"
    harness.write_model(other)
    blocker = mac.submit("before", ["load", 3], ["done"])
    job = mac.submit("far-model", ["steps", {"count": 5}], ["done"],
                     model=str(other))
    other.rename(away)
    mac.finish(blocker)
    stuck = hour.expect(mac, "MpsdQueueStuck")
    stuck.fires(22)
    away.rename(other)
    mac.finish(job)
    stuck.over(5)


def killed(hour, mac):
    job = mac.submit("survivor", ["load", 0.2], ["steps", {"count": 10}],
                     ["save", 0.2], ["steps", {"count": 60}], ["done"])
    hour.until(lambda: mac.daemon.show(job)["progress"]["step"] > 12
               if mac.daemon.show(job)["progress"] else False, "no step")
    down = hour.expect(mac, "MpsdDown")
    mac.daemon.kill()
    down.fires(3)
    mac.start()
    down.over(3)
    mac.finish(job)


def killed_again_and_again(hour, mac):
    restarts = hour.expect(mac, "MpsdRestartsTooOften")
    hour.allow(mac, "MpsdDown", 40)
    for _ in range(4):
        mac.daemon.terminate()
        mac.start()
        time.sleep(2)
    restarts.fires(3)
    restarts.over(32)


def a_full_disk(hour, mac):
    """All that is free is less than what is to be left."""
    with open(mac.lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = mac.submit("no-room", ["steps", {"count": 5}], ["done"])
        full = hour.expect(mac, "MpsdQueueHeld", reason="disk")
        mac.restart("--min-free-bytes", str(1 << 59))
    full.fires(8)
    mac.restart("--min-free-bytes", "0")
    mac.finish(job)
    full.over(3)


def an_unwritable_queue(hour, mac):
    running = mac.submit("writes", ["steps", {"count": 15}], ["done"])
    queued = mac.submit("waits", ["steps", {"count": 5}], ["done"])
    hour.until(lambda: mac.state_of(running) == "RUNNING", "does not run")
    held = hour.expect(mac, "MpsdStorageHeld")
    with contextlib.closing(sqlite3.connect(mac.state / "mpsd.db")) as database:
        database.execute("BEGIN IMMEDIATE")
        held.fires(15)
        database.rollback()
    mac.finish(running)
    mac.finish(queued)
    held.over(5)


def an_unreadable_row(hour, mac):
    job = mac.runs("damaged", ["steps", {"count": 5}], ["done"])["id"]
    set_reason = "UPDATE jobs SET exit_reason = ? WHERE id = ?"
    with contextlib.closing(sqlite3.connect(mac.state / "mpsd.db")) as database:
        errors = hour.expect(mac, "MpsdRpcErrors")
        with database:
            database.execute(set_reason, ("Bewitched", job))
        looking = threading.Event()

        def look():
            while not looking.wait(0.3):
                mac.daemon.ctl("show", job)
        people = [threading.Thread(target=look) for _ in range(3)]
        for person in people:
            person.start()
        try:
            errors.fires(12)
        finally:
            looking.set()
            for person in people:
                person.join()
            with database:
                database.execute(set_reason, ("Done", job))
    errors.over(12)


def a_job_of_yesterday(hour, mac):
    """The row of a queued job is made older while mpsd is down: no test waits a
    day."""
    with open(mac.lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = mac.submit("yesterday", ["steps", {"count": 5}], ["done"])
        age_job(mac.state / "mpsd.db", job, 2 * 86400 / FACTOR)
        waits = hour.expect(mac, "MpsdQueueWaitsTooLong")
        mac.restart("--min-free-bytes", "0")
        waits.fires(12)
    mac.finish(job)
    waits.over(5)


def age_job(path, job_id, seconds):
    database = sqlite3.connect(path)
    with contextlib.closing(database), database:
        database.execute("UPDATE jobs SET create_time_us = create_time_us - ? "
                         "WHERE id = ?", (int(seconds * 1e6), job_id))


def a_disk_that_fills(hour, mac):
    """Its own small disk, of which more and more is taken. mpsd looks at it
    every fifteen seconds."""
    filling = hour.expect(mac, "MpsdDiskFullSoon")
    filler = mac.folder / "disk" / "filler"
    full = threading.Event()

    def fill():
        with open(filler, "wb") as file:
            taken = 0
            while not full.wait(0.5):
                os.posix_fallocate(file.fileno(), taken, 1 << 20)
                taken += 1 << 20
    thread = threading.Thread(target=fill)
    thread.start()
    try:
        filling.fires(15 + 15 + 15)
    finally:
        full.set()
        thread.join()
        filler.unlink()
    filling.over(15 + 2)


# Times left of certificates: less than two weeks, less than two days, enough.
SOON, VERY_SOON, ENOUGH = (days * 86400 / FACTOR for days in (7, 1, 90))


def age(mac):
    """Before its mpsd starts for the first time: a certificate that expires
    soon, a self-test of long ago."""
    mac.authority.give(SOON)
    mac.state.mkdir(0o700, parents=True)
    verdict = mac.state / "selftest.json"
    verdict.write_text('{"identity": {"device": "mps"}}')
    passed = time.time() - 2 * 90 * 86400 / FACTOR
    os.utime(verdict, (passed, passed))


def expect_what_is_old(hour, mac):
    mac.old_self_test = hour.expect(mac, "MpsdSelfTestOld", device="mps")
    mac.old_certificates = [
        hour.expect(mac, f"Mpsd{whose}CertificateExpiresSoon")
        for whose in ("", "Api")]


def a_neglected_mac(hour, mac):
    """A self-test of long ago, certificates that are not renewed, a disk that
    takes its time, and notifications that arrive nowhere."""
    mac.old_self_test.fires(60)
    (mac.state / "selftest.json").unlink()
    for old in mac.old_certificates:
        old.fires(5)
    expiring = [hour.expect(mac, f"Mpsd{whose}CertificateExpires")
                for whose in ("", "Api")]
    mac.authority.give(VERY_SOON)
    mac.daemon.process.send_signal(signal.SIGHUP)
    for expires in expiring:
        expires.fires(7)
    mac.authority.give(ENOUGH)
    mac.daemon.process.send_signal(signal.SIGHUP)
    for certificate in expiring + mac.old_certificates:
        certificate.over(3)
    slow = hour.expect(mac, "MpsdDatabaseSlow")
    deaf = hour.expect(mac, "MpsdNotificationsFail")
    mac.restart("--notify-command", "/bin/false", "--min-free-bytes", "0",
                env={"LD_PRELOAD": str(harness.BIN / "libslow_sync.so"),
                     "SLOW_SYNC_MS": "800"})
    mac.old_self_test.over(5)
    mac.runs("short", ["steps", {"count": 5}], ["done"])
    deaf.fires(5)
    job = mac.submit("slowly", ["steps", {"count": 150}], ["done"])
    slow.fires(25)
    mac.restart("--min-free-bytes", "0")
    slow.over(12)
    deaf.over(32)
    mac.finish(job)


def a_drained_mac(hour, mac):
    """Its admin said that he would be back in a moment."""
    mac.runs("before", ["steps", {"count": 5}], ["done"])
    drained = hour.expect(mac, "MpsdDrained")
    mac.daemon.ctl("drain", "--reason", "a new disk")
    drained.fires(8 * 3600 / FACTOR)
    mac.daemon.ctl("undrain")
    mac.runs("goes-on", ["steps", {"count": 5}], ["done"])
    drained.over(5)


def nothing_happens(hour, mac):
    """This machine trains all the time, and no alert is ever about it."""
    while not hour.over.is_set():
        mac.runs("steady", ["load", 1], ["evaluate", 0.5],
                 ["steps", {"count": 40, "loss": (2.0, 1.9)}], ["save", 0.5],
                 ["done"])


def no_target(hour):
    """Prometheus takes up to five seconds to hear of other targets."""
    missing = hour.expect(None, "MpsdNotScraped")
    hour.monitoring.observe({})
    missing.fires(5 + 7)
    hour.observe()
    missing.over(5 + 3)


SCENES = {
    "studio": [a_calm_morning, a_step_that_never_ends,
               a_worker_that_falls_silent, tried_again, failures, a_bad_run],
    "laptop": [on_battery, others_want_memory, a_hot_day, somebody_elses_gpu,
               a_volume_away, killed, killed_again_and_again],
    "attic": [a_drained_mac],
    "mini": [a_full_disk, an_unwritable_queue, an_unreadable_row,
             a_disk_that_fills, a_job_of_yesterday, a_neglected_mac],
}
