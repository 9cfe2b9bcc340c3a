# SPDX-License-Identifier: Apache-2.0
"""mpsctl doctor against the real daemon: the real worker, one that is broken and
one that hangs."""

import json

import harness

# What depends on the machine that the test runs on; the rest is the daemon's.
OF_THE_MACHINE = ("power.", "memory.", "gpu.", "disk.", "mount.", "limits.",
                  "service.", "machine.", "client.round_trip",
                  "client.clock")


class DoctorTest(harness.SharedDaemonTest):
    WORKER = "fake_worker"

    def diagnose(self, daemon, *args):
        """The code, and the findings by name."""
        done = daemon.ctl("doctor", "--json", *args)
        said = json.loads(done.stdout)
        return done.returncode, {f["name"]: f for f in said["findings"]}, said

    def wrong(self, findings):
        return {name: f["verdict"] for name, f in findings.items()
                if f["verdict"] in ("WARN", "FAIL")
                and not name.startswith(OF_THE_MACHINE)}

    def test_the_real_worker_reports_torch_and_its_product(self):
        daemon = self.daemon(selftest=True)
        code, findings, said = self.diagnose(daemon, "--deep")
        self.assertIn(code, (0, 1, 2))
        self.assertEqual({}, self.wrong(findings), findings)
        self.assertEqual("PASS", findings["torch.matmul"]["verdict"])
        self.assertIn("built against", findings["torch.version"]["found"])
        self.assertEqual("PASS", findings["device.selftest"]["verdict"])
        self.assertEqual("PASS", findings["torch.protocol"]["verdict"])
        # The disk was measured, and the probe's file is gone.
        self.assertGreater(findings["disk.write"]["value"], 0)
        self.assertEqual([], list(daemon.state_dir.glob("disk-probe*")))
        expected = {v["name"]: v for v in said["environment"]}
        self.assertEqual("1", expected["OMP_NUM_THREADS"]["worker"])

    def test_each_fault_of_a_worker_is_found_alone(self):
        for fault, mode, gate in (("GATES", "crash", "torch.worker"),
                                  ("GATES", "wrong", "torch.matmul"),
                                  ("GATES", "garbage", "torch.worker"),
                                  ("SELFTEST", "1", "device.selftest")):
            with self.subTest(mode):
                daemon = self.daemon(worker="fake_worker", selftest=True,
                                     env={f"FAKE_WORKER_{fault}": mode})
                code, findings, _ = self.diagnose(
                    daemon, *["--deep"] * (fault == "SELFTEST"))
                self.assertEqual(2, code)
                self.assertEqual({gate: "FAIL"}, self.wrong(findings), findings)
                self.assertNotEqual("", findings[gate]["advice"])
                self.assertEqual(0, daemon.terminate(), daemon.said())

    def test_a_worker_that_hangs_holds_no_other_call_up(self):
        daemon = self.daemon(worker="fake_worker",
                             env={"FAKE_WORKER_GATES": "hang"})
        asker = daemon.begin("doctor")
        try:
            daemon.says("info")
            daemon.succeed(harness.write_job(
                self.folder, training={"max_steps": 2}))
        finally:
            asker.kill()
            asker.wait()
        # No call waits any more: the daemon ends at once.
        self.assertEqual(0, daemon.terminate(), daemon.said())
