# SPDX-License-Identifier: Apache-2.0
"""The daemon and its client as programs: one daemon a state folder, who may reach
it, what a user reads when no daemon answers. No job starts on a device that fails
its self-test; mpsctl says so."""

import os
import signal
import stat
import subprocess
import time

import harness


class DaemonTest(harness.EndToEndTest):
    def test_a_folder_is_the_users_and_one_daemons_alone(self):
        daemon = self.daemon(worker="fake_worker")
        info, = daemon.ctl_json("info")
        self.assertEqual(str(daemon.state_dir), info["state_dir"])
        self.assertEqual((0, 0), (info["queued_jobs"], info["running_jobs"]))
        self.assertGreater(info["disk_free_bytes"], 0)
        mode = os.stat(daemon.state_dir).st_mode
        self.assertEqual(0o700, stat.S_IMODE(mode))
        self.assertTrue(stat.S_ISSOCK(
            os.stat(daemon.state_dir / "mpsd.sock").st_mode))
        second = subprocess.run(daemon.command, capture_output=True, text=True,
                                env=daemon.env, timeout=harness.TIMEOUT,
                                check=False)
        self.assertNotEqual(0, second.returncode)
        self.assertIn(str(daemon.process.pid), second.stderr + second.stdout)
        daemon.says("info")
        self.assertEqual(0, daemon.terminate(), daemon.said())
        after = daemon.says("info", code=3)
        self.assertIn(str(daemon.state_dir / "mpsd.sock"), after)
        self.assertIn("mpsd --state-dir", after)

    def test_a_stderr_that_is_not_read_stops_no_job(self):
        """Full before mpsd starts; by hand: `mpsd` in a terminal, Ctrl-S."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(writer, True)
        daemon = self.unstarted(worker="fake_worker")
        daemon.start(stderr=writer)
        os.close(writer)
        jobs = [daemon.submit(harness.write_job(self.folder, name=f"{i}.json"))
                for i in range(5)]
        for job in jobs:
            self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
        self.assertEqual(0, daemon.terminate())
        log = (daemon.state_dir / "log/mpsd.log").read_text()
        self.assertIn("signal 15", log)
        self.assertIn("mpsd ends", log)

    def test_closed_streams_are_no_files_of_mpsd(self):
        for closed in ("2>&-", "<&- >&- 2>&-"):
            daemon = self.unstarted(worker="fake_worker")
            daemon.command = ["sh", "-c", f'exec "$@" {closed}', "sh",
                              *daemon.command]
            daemon.start()
            self.assertEqual(f"{daemon.process.pid}\n",
                             (daemon.state_dir / "lock").read_text(), closed)
            daemon.succeed(harness.write_job(self.folder))
            self.assertEqual(0, daemon.terminate())

    def test_a_hangup_renews_credentials_and_no_setting(self):
        config = self.folder / "mpsd.toml"
        config.write_text('log-level = "info"\n')
        daemon = self.daemon("--config", str(config),
                             "--host-interval-seconds", "0.05",
                             worker="fake_worker")
        now = time.localtime().tm_hour
        hours = f"{(now - 1) % 24:02}:00-{(now + 3) % 24:02}:00"
        config.write_text(f'quiet-hours = "{hours}"\n')
        daemon.process.send_signal(signal.SIGHUP)
        log = daemon.state_dir / "log/mpsd.log"
        self.eventually(lambda: "certificates and tokens were read again"
                        in log.read_text(), log.read_text)
        self.assertNotIn("QUIET_HOURS", str(daemon.ctl_json("info")))
        self.assertEqual(0, daemon.terminate())
        daemon.start()
        self.eventually(lambda: "QUIET_HOURS" in str(daemon.ctl_json("info")),
                        daemon.said)

    def test_under_nohup_a_hangup_is_none(self):
        daemon = self.unstarted(worker="fake_worker")
        daemon.command = ["nohup", *daemon.command]
        daemon.start()
        for _ in range(3):
            daemon.process.send_signal(signal.SIGHUP)
        daemon.says("info")
        self.assertEqual(0, daemon.terminate())
        self.assertNotIn("SIGHUP", (daemon.state_dir
                                    / "log/mpsd.log").read_text())

    def test_few_descriptors_are_refused_in_words(self):
        daemon = self.unstarted(worker="fake_worker")
        ended = subprocess.run(
            ["bash", "-c", 'ulimit -n 20; exec "$@"', "bash", *daemon.command],
            capture_output=True, text=True, env=daemon.env, check=False,
            timeout=harness.TIMEOUT)
        self.assertEqual(69, ended.returncode, ended.stderr)
        self.assertIn("the limit of open files is 20, mpsd needs", ended.stderr)


class BackupTest(harness.EndToEndTest):
    def test_what_the_page_says_saves_and_restores_jobs(self):
        page = (harness.ROOT / "deploy/README.md").read_text()
        part = page.partition("\n## Backup and restore\n")[2]
        _, backup, _, restore, _ = part.split("```", 4)
        daemon = self.daemon(worker="fake_worker")
        done = daemon.succeed(harness.write_job(self.folder))
        running = daemon.submit(harness.write_job(
            self.folder, called="fake:ok-slow",
            training={"max_steps": 1000000}))
        with daemon.watch(running["id"]) as watch:
            watch.until_step(2)

        def run(commands):
            subprocess.run(["bash", "-euc", commands], check=True,
                           timeout=harness.TIMEOUT, env={
                               **os.environ, "STATE": str(daemon.state_dir),
                               "BACKUP": str(self.folder / "backup")})

        run(backup)
        daemon.submit(harness.write_job(self.folder))
        daemon.kill()
        daemon.state_dir.rename(self.folder / "lost")
        run(restore)
        daemon.start()
        self.assertEqual({done["id"], running["id"]},
                         {j["id"] for j in daemon.ctl_json("list")})
        self.download(daemon, done["id"])
        self.eventually(lambda: daemon.show(running["id"])["attempt"] == 2)


class SelftestTest(harness.EndToEndTest):
    def job(self):
        return harness.write_job(self.folder, training={"max_steps": 2})

    def wait_for_reason(self, daemon, words):
        self.eventually(lambda: words in daemon.says("info"))

    def test_a_device_that_fails_gets_no_job_until_it_is_trusted(self):
        daemon = self.daemon(worker="fake_worker", selftest=True,
                             env={"FAKE_WORKER_SELFTEST": "1"})
        job = daemon.submit(self.job())
        self.wait_for_reason(daemon, "the self-test of the device failed")
        self.assertEqual("QUEUED", daemon.state(job["id"]))
        daemon.await_said("self-test of the device failed")
        self.assertEqual(0, daemon.terminate(), daemon.said())
        daemon.command.append("--skip-selftest")
        daemon.start()
        self.assertEqual("SUCCEEDED", daemon.finish(job["id"])["state"])
