# SPDX-License-Identifier: Apache-2.0
"""A machine that is shared: the plug is pulled in the middle of a run, which
holds and goes on by itself to the very bytes of a run nobody disturbed."""

import json
import os
import signal
import sys
import unittest

import harness

STEPS = 60
TRAINING = {"max_steps": STEPS, "save_steps": 5, "learning_rate": 0.001}
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
        out = harness.undisturbed_run(cls, TRAINING)
        cls.manifest = json.loads((out / "run.json").read_text())

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
        """Within the run: the worker stands still until the daemon has seen the
        battery, then it goes on to the end of its micro-batch."""
        watch.until(lambda e: e.get("progress", {}).get("step", 0) >= 3)
        worker = self.pause(daemon)
        self.machine_is(BATTERY)
        watch.until(lambda e: e.get("note", "").startswith("paused: on batt"))
        os.kill(worker, signal.SIGCONT)

    def check_end(self, daemon, watch, attempts):
        job = watch.finish()
        self.assertEqual("SUCCEEDED", job["state"], job["message"])
        self.assertEqual(attempts, job["attempt"])
        self.assertIsNone(job["pause"])
        self.assertEqual(STEPS, watch.steps()[-1])
        self.check_adapter(daemon, job["id"])

    def test_held_and_goes_on(self):
        daemon = self.shared()
        job = daemon.submit(harness.write_job(self.folder, training=TRAINING))
        with daemon.watch(job["id"]) as watch:
            self.unplug(daemon, watch)
            held = self.eventually(
                lambda: (shown := daemon.show(job["id"]))["pause"]
                and shown["pause"]["held"] and shown, daemon.said)
            self.assertEqual("RUNNING", held["state"])
            self.assertEqual(["BATTERY"], held["pause"]["reasons"])
            self.assertLess(held["progress"]["step"], STEPS)
            # An undisturbed run would be over by the time all this is asked.
            text = daemon.ctl("show", job["id"]).stdout
            self.assertIn("paused        held for ", text)
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
            watch.until(lambda e: e.get("note", "").startswith("goes on"))
            self.check_end(daemon, watch, attempts=1)
        self.assertIn('mpsd_paused{reason="battery"} 0\n', daemon.metrics())

    def test_a_long_pause_gives_the_memory_back(self):
        daemon = self.shared("--pause-hold-seconds", "0.2")
        job = daemon.submit(harness.write_job(self.folder, training=TRAINING))
        with daemon.watch(job["id"]) as watch:
            self.unplug(daemon, watch)
            queued = watch.until(
                lambda e: e.get("state", {}).get("state") == "QUEUED")
            self.assertIn("resumes by itself", queued["state"]["message"])
            waiting = daemon.show(job["id"])
            self.assertEqual("QUEUED", waiting["state"])
            self.assertEqual(["BATTERY"], waiting["pause"]["reasons"])
            self.eventually(lambda: not daemon.workers())
            self.machine_is(MAINS)
            self.check_end(daemon, watch, attempts=2)

    def test_nothing_starts_on_battery(self):
        self.machine_is(BATTERY)
        daemon = self.shared()
        job = daemon.submit(harness.write_job(self.folder, training=TRAINING))
        with daemon.watch(job["id"]) as watch:
            # mpsd may have begun to look at the machine only now.
            pause = self.eventually(lambda: daemon.show(job["id"])["pause"],
                                    daemon.said)
            self.assertEqual(["BATTERY"], pause["reasons"])
            self.assertEqual([], daemon.workers())
            self.machine_is(MAINS)
            self.check_end(daemon, watch, attempts=1)

    def test_the_environment_is_that_of_a_shared_mac(self):
        daemon = self.shared()
        job = daemon.submit(harness.write_job(
            self.folder, training=TRAINING, allow_cpu_fallback=True))
        daemon.finish(job["id"])
        run = self.folder / "state/jobs" / job["id"] / "out/run.json"
        of_daemon = json.loads(run.read_text())["environment"]
        alone = self.manifest["environment"]
        for environment, fallback in ((alone, "0"), (of_daemon, "1")):
            for name, value in (
                    ("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.95"),
                    ("PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.75"),
                    ("PYTORCH_MPS_FAST_MATH", "0"),
                    ("AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1"),
                    ("PYTORCH_ENABLE_MPS_FALLBACK", fallback)):
                self.assertEqual(value, environment[name], name)
