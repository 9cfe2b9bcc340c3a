# SPDX-License-Identifier: Apache-2.0
"""mpsctl --server ssh://…: the system's ssh and a real sshd on the loopback."""

import os
import subprocess
import time
import unittest

import harness
import sshd


REFUSED = 8  # the code of a host, a key or an account that is refused


@unittest.skipUnless(sshd.PROGRAM, "no sshd on this machine")
class SshTest(harness.SharedDaemonTest):
    STATE = "Application Support"  # the way of a Mac: a space in the path
    WORKER = "fake_worker"

    def setUp(self):
        super().setUp()
        self.sshd = sshd.Sshd(self.folder / "sshd")
        self.addCleanup(self.sshd.close)
        self.runtime = self.folder / "r"  # where the tunnels' folders are
        self.runtime.mkdir()
        self.state = self.mpsd.state_dir
        self.env = harness.environment(
            MPSD_SSH=str(self.sshd.folder / "ssh"),
            XDG_CONFIG_HOME=str(self.folder / "config"),
            TMPDIR=str(self.runtime), PATH=os.environ["PATH"])

    def url(self, path=None):
        return f"ssh://studio{path or self.state / 'mpsd.sock'}"

    def command(self, *args, url=None):
        return [str(harness.BIN / "mpsctl"), "--server", url or self.url(),
                *args]

    def ctl(self, *args, url=None, **env):
        return subprocess.run(
            self.command(*args, url=url), capture_output=True, text=True,
            env={**self.env, **env}, timeout=harness.TIMEOUT, check=False,
            stdin=subprocess.DEVNULL, start_new_session=True)

    def says(self, *args, code=0, url=None):
        result = self.ctl(*args, url=url)
        self.assertEqual(code, result.returncode, f"{url}: {result.stderr}")
        return result.stdout

    def refused(self, code, *words, url=None, **env):
        result = self.ctl("list", url=url, **env)
        self.assertEqual(code, result.returncode, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertIn("mpsctl: cannot reach mpsd at ssh://", result.stderr)
        self.assertEqual([], list(self.runtime.iterdir()))
        return result.stderr

    def assert_ended(self, pids):
        self.eventually(lambda: not any(map(sshd.alive, pids)))

    def watch(self, job):
        return harness.Watch(["--server", self.url()], job["id"], self.env)

    def slow_job(self, steps=100000):
        job = self.mpsd.submit(harness.write_job(
            self.folder, called="fake:ok-slow", training={"max_steps": steps}))
        self.addCleanup(self.mpsd.ctl, "cancel", "--now", job["id"])
        return job

    def test_submit_watch_and_cancel(self):
        self.sshd.start()
        job = harness.write_job(self.folder)
        self.assertIn("SUCCEEDED", self.says("submit", job))
        # Everything went through one ssh, and nothing of it is left.
        self.assertEqual(1, len(self.sshd.sessions()))
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))
        listed = self.ctl("--json", "list")
        self.assertIn('"SUCCEEDED"', listed.stdout, listed.stderr)
        self.assertIn(f"at {self.url()}", self.ctl("info").stdout)

    def test_the_host_is_asked_once_where_the_socket_is(self):
        daemon = self.mpsd
        self.sshd.start(f'SetEnv MPSD_STATE_DIR="{self.state}"')
        job = self.slow_job()
        self.says("cancel", job["id"], url="ssh://studio")
        self.assertEqual("CANCELLED", daemon.finish(job["id"])["state"])
        self.assertEqual(2, len(self.sshd.started()))
        self.assertIn("ssh://studio", self.ctl("context", "list").stdout)
        # The context has the answer, and leads there by its name.
        self.says("list", url="ssh://studio")
        harness.Client(("--context", "ssh-studio"), self.env).says("list")
        self.assertEqual(4, len(self.sshd.started()))

    def test_sshs_configuration_may_hold_what_tunnels_cannot_bear(self):
        self.sshd.start()
        taken = harness.free_port()
        self.sshd.client_config(
            "RemoteCommand echo other", "RequestTTY force",
            "ControlMaster auto", "ControlPersist 600",
            f"ControlPath {self.folder}/own-%C",
            f"LocalForward {taken} 127.0.0.1:1", "PermitLocalCommand yes",
            "LocalCommand echo mpsd-none", "LogLevel QUIET", "StdinNull yes",
            "ForkAfterAuthentication yes", "SessionType none")
        self.says("list")
        self.assert_ended(self.sshd.sessions())

    def test_nothing_listens(self):
        self.refused(3, "Connection refused")

    def test_the_host_key_is_unknown_or_another(self):
        self.sshd.start()
        self.sshd.trust(None)
        self.refused(REFUSED, "Host key verification failed")
        sshd.make_key(self.sshd.folder / "other_key")
        self.sshd.trust("other_key")
        self.refused(REFUSED, "REMOTE HOST IDENTIFICATION HAS CHANGED")

    def test_the_key_is_refused(self):
        self.sshd.start()
        sshd.make_key(self.sshd.folder / "other")
        self.sshd.authorize("other")
        self.refused(REFUSED, "Permission denied (publickey")

    def test_a_socket_that_lets_nothing_through(self):
        daemon = self.mpsd
        self.sshd.start("AllowStreamLocalForwarding no")
        self.refused(3, "AllowStreamLocalForwarding", "open failed")
        self.sshd.kill()
        self.sshd.start()
        daemon.kill()
        self.refused(3, "nothing listens at", "open failed")
        daemon.start()

    @unittest.skipIf(os.geteuid() == 0, "root opens every socket")
    def test_a_socket_of_another_account(self):
        self.sshd.start()
        socket = self.state / "mpsd.sock"
        self.addCleanup(socket.chmod, socket.stat().st_mode & 0o777)
        socket.chmod(0o400)
        self.refused(REFUSED, "may not open", "--socket-group",
                     url=self.url(self.state))

    def test_no_url_runs_anything(self):
        witness = self.folder / "witness"
        for place in (f"-oProxyCommand=touch${{IFS}}{witness}",
                      f"-oProxyCommand=touch {witness}", "-V",
                      f"x;touch {witness}", f"$(touch {witness})",
                      f"`touch {witness}`", f"-lx@studio{witness}",
                      "studio:22;id"):
            self.says("list", url=f"ssh://{place}", code=2)
        self.assertEqual([], self.sshd.started())
        self.sshd.start()
        for path in (f"/$(touch {witness})", f"/`touch {witness}`",
                     f"/';touch {witness};'", f"/x\";touch {witness};\""):
            self.says("list", url=f"ssh://studio{path}", code=3)
        self.assertFalse(witness.exists())

    def test_kill_9_of_mpsctl_ends_ssh_and_leaves_nothing(self):
        self.sshd.start()
        with self.watch(self.slow_job()) as watch:
            watch.until_step(1)
            ssh = self.sshd.sessions()
            self.assertEqual([True], [sshd.alive(pid) for pid in ssh])
            left, = self.runtime.iterdir()
            self.assertEqual(0o700, left.stat().st_mode & 0o777)
            watch.process.kill()
            self.assert_ended(ssh)
        self.eventually(lambda: not left.exists())

    def test_a_watch_continues_through_a_new_tunnel(self):
        self.sshd.start()
        job = self.slow_job(steps=300)
        with self.watch(job) as watch:
            watch.until_step(1)
            self.sshd.kill()
            time.sleep(1)
            self.sshd.start()
            self.assertEqual("SUCCEEDED", watch.finish()["state"])
            self.assertEqual(0, watch.code, watch.said())
            self.assertIn("lost the connection", watch.said())
        steps = watch.steps()[:-1]  # without the job's own
        self.assertEqual(sorted(set(steps)), steps)
        self.assertEqual(300, steps[-1])
        self.assertGreaterEqual(len(self.sshd.sessions()), 2)
        self.assert_ended(self.sshd.sessions())

    def test_a_watch_gives_up_at_once_when_the_key_is_refused(self):
        self.sshd.start()
        with self.watch(self.slow_job()) as watch:
            watch.until_step(1)
            sshd.make_key(self.sshd.folder / "other")
            self.sshd.authorize("other")
            self.sshd.kill()
            self.sshd.start()
            self.assertEqual(REFUSED, watch.process.wait(harness.TIMEOUT))
            self.assertIn("Permission denied", watch.said())

    def test_ctrl_c_detaches_and_leaves_nothing(self):
        daemon = self.mpsd
        self.sshd.start()
        job = self.slow_job()
        watch = harness.Terminal(self.command("watch", job["id"]), self.env)
        self.addCleanup(watch.close)
        watch.until(r"step \d+/")
        watch.type(b"\x03")
        self.assertEqual(130, watch.wait())
        self.assertIn("Detached; job ", watch.text)
        self.assertEqual(1, len(self.sshd.sessions()), watch.text)
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))
        self.assertEqual("RUNNING", daemon.state(job["id"]))

    def test_a_passphrase_is_asked_on_the_terminal(self):
        self.sshd.start()
        sshd.make_key(self.sshd.folder / "locked", "open sesame")
        self.sshd.authorize("locked")
        self.sshd.client_config(key="locked")
        list_ = harness.Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until("Enter passphrase for key")
        list_.type(b"open sesame\n")
        self.assertEqual(0, list_.wait(), list_.text)
        self.assertNotIn("sesame", list_.text)

    def test_an_unknown_host_is_asked_for_on_the_terminal(self):
        self.sshd.start()
        self.sshd.trust(None)
        list_ = harness.Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until(r"fingerprint is SHA256:[\s\S]*\(yes/no")
        list_.type(b"yes\n")
        self.assertEqual(0, list_.wait(), list_.text)
        self.says("list")

    def test_ctrl_c_at_a_passphrase(self):
        self.sshd.start()
        sshd.make_key(self.sshd.folder / "locked", "open sesame")
        self.sshd.client_config(key="locked")
        self.sshd.authorize("locked")
        list_ = harness.Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until("Enter passphrase for key")
        self.assertFalse(list_.echoes())
        list_.type(b"\x03")
        self.assertEqual(130, list_.wait(), list_.text)
        self.assertTrue(list_.echoes(), "the terminal shows no more typing")
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))
