# SPDX-License-Identifier: Apache-2.0
"""mpsctl --server ssh://…: the system's ssh and a real sshd on the loopback."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
import unittest

import harness
import sshd


REFUSED = 8  # the code of a host, a key or an account that is refused


@unittest.skipUnless(sshd.PROGRAM, "no sshd on this machine")
class SshTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.sshd = sshd.Sshd(self.folder / "sshd")
        self.addCleanup(self.sshd.close)
        self.runtime = self.folder / "r"  # where the tunnels' folders are
        self.runtime.mkdir()
        # The way of a Mac: a space in the path of the socket.
        self.state = self.folder / "Application Support"
        self.env = harness.environment(
            MPSD_SSH=str(self.sshd.folder / "ssh"),
            XDG_CONFIG_HOME=str(self.folder / "config"),
            TMPDIR=str(self.runtime), PATH=os.environ["PATH"])

    def serve(self):
        daemon = harness.Daemon(self.state, worker="fake_worker")
        self.addCleanup(daemon.close)
        return daemon.start()

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

    def refused(self, code, *words, url=None, **env):
        result = self.ctl("list", url=url, **env)
        self.assertEqual(code, result.returncode, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertIn("mpsctl: cannot reach mpsd at ssh://", result.stderr)
        self.assertEqual([], list(self.runtime.iterdir()))
        return result.stderr

    def assert_ended(self, pids):
        deadline = time.monotonic() + harness.TIMEOUT
        while left := [pid for pid in pids if sshd.alive(pid)]:
            self.assertLess(time.monotonic(), deadline, f"ssh {left} goes on")
            time.sleep(0.01)

    def watch(self, job):
        return harness.Watch(["--server", self.url()], job["id"], self.env)

    def slow_job(self, daemon, steps=100000):
        path = harness.write_job(self.folder, name="slow.json",
                                 training={"max_steps": steps})
        spec = json.loads(path.read_text())
        spec["name"] = "fake:ok-slow"
        path.write_text(json.dumps(spec))
        return daemon.submit(path)

    # --- what works ----------------------------------------------------------

    def test_submit_watch_and_cancel(self):
        self.serve()
        self.sshd.start()
        job = harness.write_job(self.folder)
        result = self.ctl("submit", str(job))
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("SUCCEEDED", result.stdout)
        # Everything went through one ssh, and nothing of it is left.
        self.assertEqual(1, len(self.sshd.sessions()))
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))
        listed = self.ctl("--json", "list")
        self.assertIn('"SUCCEEDED"', listed.stdout, listed.stderr)
        self.assertIn(f"at {self.url()}", self.ctl("info").stdout)

    def test_the_host_is_asked_once_where_the_socket_is(self):
        daemon = self.serve()
        self.sshd.start(f'SetEnv MPSD_STATE_DIR="{self.state}"')
        job = self.slow_job(daemon)
        result = self.ctl("cancel", job["id"], url="ssh://studio")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual("CANCELLED", daemon.finish(job["id"])["state"])
        self.assertEqual(2, len(self.sshd.started()))
        self.assertIn("ssh://studio", self.ctl("context", "list").stdout)
        # The context has the answer, and leads there by its name.
        for result in (self.ctl("list", url="ssh://studio"), subprocess.run(
                [str(harness.BIN / "mpsctl"), "--context", "ssh-studio", "list"],
                capture_output=True, text=True, env=self.env,
                timeout=harness.TIMEOUT, check=False)):
            self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual(4, len(self.sshd.started()))

    def test_the_environment_names_the_server(self):
        self.serve()
        self.sshd.start()
        result = subprocess.run(
            [str(harness.BIN / "mpsctl"), "list"], capture_output=True,
            text=True, env={**self.env, "MPSD_SERVER": self.url()},
            timeout=harness.TIMEOUT, check=False)
        self.assertEqual(0, result.returncode, result.stderr)

    def test_verbs_that_ask_no_daemon_start_no_ssh(self):
        result = self.ctl("schema")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual([], self.sshd.started())

    def test_sshs_configuration_may_hold_what_tunnels_cannot_bear(self):
        self.serve()
        self.sshd.start()
        taken = harness.free_port()
        self.sshd.client_config(
            "RemoteCommand echo other", "RequestTTY force",
            "ControlMaster auto", "ControlPersist 600",
            f"ControlPath {self.folder}/own-%C",
            f"LocalForward {taken} 127.0.0.1:1", "PermitLocalCommand yes",
            "LocalCommand echo mpsd-none", "LogLevel QUIET", "StdinNull yes",
            "ForkAfterAuthentication yes", "SessionType none")
        result = self.ctl("list")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assert_ended(self.sshd.sessions())

    # --- what goes wrong -----------------------------------------------------

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

    def test_no_ssh_program(self):
        self.refused(6, "/none/ssh", MPSD_SSH="/none/ssh")

    def test_no_mpsd_there(self):
        self.sshd.start(f'SetEnv MPSD_STATE_DIR="{self.folder}/none"')
        said = self.refused(3, "no mpsd runs here",
                            f"{self.folder}/none/mpsd.sock",
                            url="ssh://studio")
        self.assertRegex(said, r"\.local/state/mpsd/mpsd\.sock|"
                               r"Application Support/mpsd/mpsd\.sock")

    def test_a_socket_that_lets_nothing_through(self):
        daemon = self.serve()
        self.sshd.start("AllowStreamLocalForwarding no")
        self.refused(3, "AllowStreamLocalForwarding", "open failed")
        self.sshd.kill()
        self.sshd.start()
        daemon.kill()
        self.refused(3, "none listens at", "open failed")

    @unittest.skipIf(os.geteuid() == 0, "root opens every socket")
    def test_a_socket_of_another_account(self):
        self.serve()
        self.sshd.start()
        (self.state / "mpsd.sock").chmod(0o400)
        self.refused(REFUSED, "may not open", "--socket-group",
                     url=self.url(self.state))

    def test_no_url_runs_anything(self):
        witness = self.folder / "witness"
        for place in (f"-oProxyCommand=touch${{IFS}}{witness}",
                      f"-oProxyCommand=touch {witness}", "-V",
                      f"x;touch {witness}", f"$(touch {witness})",
                      f"`touch {witness}`", f"-lx@studio{witness}",
                      "studio:22;id"):
            result = self.ctl("list", url=f"ssh://{place}")
            self.assertEqual(2, result.returncode, place + result.stderr)
        self.assertEqual([], self.sshd.started())
        self.sshd.start()
        for path in (f"/$(touch {witness})", f"/`touch {witness}`",
                     f"/';touch {witness};'", f"/x\";touch {witness};\""):
            result = self.ctl("list", url=f"ssh://studio{path}")
            self.assertEqual(3, result.returncode, path + result.stderr)
        self.assertFalse(witness.exists())

    # --- ends ----------------------------------------------------------------

    def test_kill_9_of_mpsctl_ends_ssh_and_leaves_nothing(self):
        daemon = self.serve()
        self.sshd.start()
        with self.watch(self.slow_job(daemon)) as watch:
            watch.until(lambda event: "progress" in event)
            ssh = self.sshd.sessions()
            self.assertEqual([True], [sshd.alive(pid) for pid in ssh])
            left, = self.runtime.iterdir()
            self.assertEqual(0o700, left.stat().st_mode & 0o777)
            watch.process.kill()
            self.assert_ended(ssh)
        deadline = time.monotonic() + harness.TIMEOUT
        while left.exists():
            self.assertLess(time.monotonic(), deadline, f"{left} stays")
            time.sleep(0.01)

    def test_a_watch_goes_on_through_a_new_tunnel(self):
        daemon = self.serve()
        self.sshd.start()
        job = self.slow_job(daemon, steps=300)
        with self.watch(job) as watch:
            watch.until(lambda event: "progress" in event)
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
        daemon = self.serve()
        self.sshd.start()
        with self.watch(self.slow_job(daemon)) as watch:
            watch.until(lambda event: "progress" in event)
            sshd.make_key(self.sshd.folder / "other")
            self.sshd.authorize("other")
            self.sshd.kill()
            self.sshd.start()
            self.assertEqual(REFUSED, watch.process.wait(harness.TIMEOUT))
            self.assertIn("Permission denied", watch.said())

    def test_ctrl_c_detaches_and_leaves_nothing(self):
        daemon = self.serve()
        self.sshd.start()
        job = self.slow_job(daemon)
        watch = Terminal(self.command("watch", job["id"]), self.env)
        self.addCleanup(watch.close)
        watch.until(r"step \d+/")
        watch.type(b"\x03")
        self.assertEqual(130, watch.wait())
        self.assertIn("goes on", watch.text)
        self.assertEqual(1, len(self.sshd.sessions()), watch.text)
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))
        self.assertEqual("RUNNING", daemon.show(job["id"])["state"])

    # --- the terminal --------------------------------------------------------

    def test_a_passphrase_is_asked_on_the_terminal(self):
        self.serve()
        self.sshd.start()
        sshd.make_key(self.sshd.folder / "locked", "open sesame")
        self.sshd.authorize("locked")
        self.sshd.client_config(key="locked")
        list_ = Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until("Enter passphrase for key")
        list_.type(b"open sesame\n")
        self.assertEqual(0, list_.wait(), list_.text)
        self.assertNotIn("sesame", list_.text)

    def test_an_unknown_host_is_asked_for_on_the_terminal(self):
        self.serve()
        self.sshd.start()
        self.sshd.trust(None)
        list_ = Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until(r"fingerprint is SHA256:[\s\S]*\(yes/no")
        list_.type(b"yes\n")
        self.assertEqual(0, list_.wait(), list_.text)
        self.assertEqual(0, self.ctl("list").returncode)

    def test_ctrl_c_at_a_passphrase(self):
        self.sshd.start()
        sshd.make_key(self.sshd.folder / "locked", "open sesame")
        self.sshd.client_config(key="locked")
        self.sshd.authorize("locked")
        list_ = Terminal(self.command("list"), self.env)
        self.addCleanup(list_.close)
        list_.until("Enter passphrase for key")
        self.assertFalse(list_.echoes())
        list_.type(b"\x03")
        self.assertEqual(130, list_.wait(), list_.text)
        self.assertTrue(list_.echoes(), "the terminal shows no more typing")
        self.assert_ended(self.sshd.sessions())
        self.assertEqual([], list(self.runtime.iterdir()))


class Terminal:
    """A program on a terminal of its own, which it leads as a shell's does."""

    def __init__(self, command, env):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, {**env, "TERM": "xterm"})
        self.text = ""
        self.code = None

    def read(self, seconds):
        """Whether something came."""
        ready, _, _ = select.select([self.end], [], [], seconds)
        if not ready:
            return False
        try:
            came = os.read(self.end, 1 << 16)
        except OSError:  # nobody has the other end any more
            time.sleep(seconds)
            return False
        self.text += came.decode(errors="replace")
        return bool(came)

    def until(self, pattern):
        deadline = time.monotonic() + harness.TIMEOUT
        while not re.search(pattern, self.text):
            if time.monotonic() > deadline or self.ended():
                raise AssertionError(f"no '{pattern}' in: {self.text}")
            self.read(0.05)

    def type(self, keys):
        os.write(self.end, keys)

    def echoes(self):
        return bool(termios.tcgetattr(self.end)[3] & termios.ECHO)

    def ended(self):
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self):
        """The exit code, once the program has ended."""
        deadline = time.monotonic() + harness.TIMEOUT
        while not self.ended():
            if time.monotonic() > deadline:
                raise AssertionError(f"it goes on: {self.text}")
            self.read(0.05)
        while self.read(0.01):  # all that it said
            pass
        return self.code

    def close(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.end)


if __name__ == "__main__":
    unittest.main()
