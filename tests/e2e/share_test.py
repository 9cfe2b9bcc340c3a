# SPDX-License-Identifier: Apache-2.0
"""The device divided by priority and by what the machine is used for: a job that
gives way, is killed on the way or holds while the plug is out comes out, to the
byte, as an undisturbed one."""

import json
import os
import signal
import sys
import unittest

import harness

STEPS = 240
TRAINING = {"max_steps": STEPS, "save_steps": 10, "learning_rate": 0.001}
AT_ONCE = ("--preempt", "--preempt-margin-seconds", "0",
           "--preempt-min-run-seconds", "0")


def curve(folder):
    """What each step reported, except times and memory."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key] for key in
                  ("step", "loss", "grad_norm", "learning_rate", "tokens"))
            for line in lines]


class ShareTest(harness.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        run = harness.undisturbed_run(cls, TRAINING)
        cls.curve = curve(run)

    def daemon(self, *options):
        return super().daemon(*harness.slow_disk(15), *options)

    def submit(self, daemon, *options, name="job.json", **changes):
        job = harness.write_job(self.folder, name, **{
            "training": TRAINING, **changes})
        return daemon.submit(job, *options)["id"]

    def submit_urgent(self, daemon):
        return self.submit(daemon, "--priority", "5", name="urgent.json",
                           training={"max_steps": 2})

    def check_undisturbed(self, daemon, job_id):
        self.assertEqual("SUCCEEDED", daemon.state(job_id))
        self.check_adapter(daemon, job_id)
        self.assertEqual(
            self.curve, curve(self.folder / f"state/jobs/{job_id}/out"))

    def notes(self, watch):
        return [e["note"] for e in watch.events if "note" in e]

    def test_higher_priority_takes_the_device(self):
        daemon = self.daemon(*AT_ONCE)
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            for step in (20, 90):
                watch.until_step(step)
                urgent = self.submit_urgent(daemon)
                queued = watch.until_state("QUEUED")
                self.assertIn(f"gives way to job {urgent} of priority 5, "
                              "resumes by itself", queued["state"]["message"])
                self.assertEqual("SUCCEEDED",
                                 daemon.finish(urgent)["state"])
                with daemon.watch(urgent) as other:
                    other.finish()
                    self.assertTrue(any(f"takes the device from job {low}" in n
                                        for n in self.notes(other)))
            job = watch.finish()
            self.assertEqual(3, job["attempt"])
            steps = watch.steps()
            self.assertEqual(sorted(steps), steps, "no step is done twice")
        self.assertEqual(0, job.get("failures", 0))
        self.check_undisturbed(daemon, low)
        info, = daemon.ctl_json("info")
        self.assertEqual(0, info.get("queued_jobs", 0))

    def test_killed_while_it_gives_way(self):
        daemon = self.daemon(*AT_ONCE)
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            watch.until_checkpoint(50)
            worker = self.pause(daemon)
            urgent = self.submit_urgent(daemon)
            watch.until_note("gives way")
            daemon.kill()
            harness._signal(worker, signal.SIGKILL)
            daemon.start()
            with daemon.watch(urgent) as other:
                self.assertEqual("SUCCEEDED", other.finish()["state"])
            watch.finish()
        self.check_undisturbed(daemon, low)

    def test_worker_that_does_not_answer(self):
        daemon = self.daemon(*AT_ONCE, "--stop-grace-seconds", "0.5")
        low = self.submit(daemon)
        with daemon.watch(low) as watch:
            watch.until_checkpoint(50)
            self.pause(daemon)
            urgent = self.submit_urgent(daemon)
            queued = watch.until_state("QUEUED")
            self.assertIn("no checkpoint within the grace period",
                          queued["state"]["message"])
            self.assertEqual("SUCCEEDED", daemon.finish(urgent)["state"])
            watch.finish()
        self.check_undisturbed(daemon, low)


SHORT_STEPS = 60
SHORT = {"max_steps": SHORT_STEPS, "save_steps": 5, "learning_rate": 0.001}
BATTERY = {"power_source": "battery", "battery_ratio": 0.5}
MAINS = {"power_source": "mains", "battery_ratio": 0.5}


@unittest.skipUnless(sys.platform == "linux", "asks the ELF loader")
class StartTest(unittest.TestCase):
    def test_alone_it_loads_torch_once(self):
        done = harness.run("mpsd-worker", "--job", "none.json", "--out", "none",
                           env=harness.environment(LD_DEBUG="files"))
        self.assertIn("none.json: No such file", done.stderr)
        begun = [line for line in done.stderr.splitlines()
                 if "calling init" in line and "libtorch_cpu" in line]
        self.assertEqual(1, len(begun))


class MannersTest(harness.EndToEndTest):
    @classmethod
    def setUpClass(cls):
        harness.undisturbed_run(cls, SHORT)

    def setUp(self):
        super().setUp()
        self.host_file = self.folder / "host.json"
        self.machine_is(MAINS)

    def machine_is(self, state):
        aside = self.host_file.with_suffix(".new")
        aside.write_text(json.dumps(state))
        aside.rename(self.host_file)

    def shared(self, *options):
        return self.daemon(*harness.slow_disk(20), "--pause-on-battery",
                           "--host-file",
                           str(self.host_file), "--host-interval-seconds",
                           "0.05", "--pause-settle-seconds", "0.1", *options)

    def unplug(self, daemon, watch):
        """Within the run: the worker is stopped until the daemon has seen the
        battery, then it continues to the end of its micro-batch."""
        watch.until_step(3)
        worker = self.pause(daemon)
        self.machine_is(BATTERY)
        watch.until_note("paused: on batt")
        os.kill(worker, signal.SIGCONT)

    def check_end(self, daemon, watch, attempts):
        job = watch.finish()
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(attempts, job["attempt"])
        self.assertIsNone(job["pause"])
        self.assertEqual(SHORT_STEPS, watch.steps()[-1])
        self.check_adapter(daemon, job["id"])

    def test_held_and_resumed(self):
        daemon = self.shared()
        job = daemon.submit(harness.write_job(self.folder, training=SHORT))
        with daemon.watch(job["id"]) as watch:
            self.unplug(daemon, watch)
            held = self.eventually(
                lambda: (shown := daemon.show(job["id"]))["pause"]
                and shown["pause"]["held"] and shown, daemon.said)
            self.assertEqual("RUNNING", held["state"])
            self.assertEqual(["BATTERY"], held["pause"]["reasons"])
            self.assertLess(held["progress"]["step"], SHORT_STEPS)
            # An undisturbed run would be over by the time all this is asked.
            text = daemon.ctl("show", job["id"]).stdout
            self.assertIn("state         PAUSED for ", text)
            reason = "on battery or in Low Power Mode"
            self.assertIn(f" PAUSED ({reason}) ", daemon.says("list"))
            self.assertRegex(daemon.says("queue"),
                             rf"\nPAUSED .* {reason}\n")
            info = daemon.ctl("info").stdout
            self.assertIn("machine        battery 50%\n", info)
            self.assertIn("on battery or in Low Power Mode\n", info)
            metrics = daemon.metrics()
            self.assertIn('mpsd_paused{reason="battery"} 1\n', metrics)
            self.assertIn("mpsd_host_on_battery 1\n", metrics)
            later = daemon.show(job["id"])
            self.assertEqual(held["progress"]["step"],
                             later["progress"]["step"])
            self.machine_is(MAINS)
            watch.until_note("resumed after")
            self.check_end(daemon, watch, attempts=1)
        self.assertIn('mpsd_paused{reason="battery"} 0\n', daemon.metrics())

    def test_a_long_pause_gives_the_memory_back(self):
        daemon = self.shared("--pause-hold-seconds", "0.2")
        job = daemon.submit(harness.write_job(self.folder, training=SHORT))
        with daemon.watch(job["id"]) as watch:
            self.unplug(daemon, watch)
            queued = watch.until_state("QUEUED")
            self.assertIn("resumes by itself", queued["state"]["message"])
            waiting = daemon.show(job["id"])
            self.assertEqual("QUEUED", waiting["state"])
            self.assertEqual(["BATTERY"], waiting["pause"]["reasons"])
            self.eventually(lambda: not daemon.workers())
            self.machine_is(MAINS)
            self.check_end(daemon, watch, attempts=2)
