# SPDX-License-Identifier: Apache-2.0
"""`mpsctl watch` without an id on a pseudoterminal, with the real mpsd."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import termios
import time
import unittest

import harness

FRAME = re.compile(r"\x1b\[\?7l\x1b\[H(.*?)\x1b\[J\x1b\[\?7h", re.S)


class Screen:
    """A command on a pseudoterminal of its own."""

    def __init__(self, command, columns=80, rows=24):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # The size is there before the command asks for it.
            fcntl.ioctl(0, termios.TIOCSWINSZ,
                        struct.pack("HHHH", rows, columns, 0, 0))
            os.execvpe(command[0], command, harness.environment(LANG="C.UTF-8"))
        self.output = b""
        self.modes = termios.tcgetattr(self.terminal)

    def resize(self, columns, rows):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        """What has come; False once the command has closed the terminal."""
        if not select.select([self.terminal], [], [], 0.1)[0]:
            return True
        try:
            self.output += os.read(self.terminal, 65536)
        except OSError:
            return False
        return True

    def frame(self):
        """The lines that the terminal shows: the last whole picture."""
        frames = FRAME.findall(self.output.decode(errors="replace"))
        return re.split(r"\x1b\[K\r+\n", frames[-1])[:-1] if frames else []

    def until(self, pattern):
        """Waits for a picture with a line that matches; the match."""
        deadline = time.monotonic() + harness.TIMEOUT
        while time.monotonic() < deadline and self.read():
            for line in self.frame():
                if match := re.search(pattern, line):
                    return match
        raise AssertionError(f"no {pattern!r} in {self.output[-2000:]}")

    def end(self):
        """Waits for the command's end; its code."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class WatchTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.host = self.daemon(worker="fake_worker")

    def submit(self, mode, *options, steps=20_000):
        path = harness.write_job(self.folder, training={"max_steps": steps})
        spec = json.loads(path.read_text())
        spec["name"] = f"fake:{mode}"
        path.write_text(json.dumps(spec))
        return self.host.submit(path, *options)["id"]

    def test_follows_what_runs_until_ctrl_c(self):
        first = self.submit("ok-slow")
        second = self.submit("ok-slow")
        screen = Screen([str(harness.BIN / "mpsctl"), "--state-dir",
                         str(self.host.state_dir), "watch"])
        self.addCleanup(os.close, screen.terminal)
        screen.until(r"1 running, 1 queued")
        screen.until(rf"^Job {first}  fake:ok-slow")
        step = screen.until(r"step (\d+)/20000  ETA ").group(1)
        screen.until(rf"step (?!{step}/)\d+/20000")
        screen.until(r"^loss \d\.\d+ [▁-█]{2}")
        screen.until(r"^memory 1\.0 MB")
        screen.until(rf"^  1  {second[-8:]}  ")
        # It follows a new size, a daemon that comes back, and the next job.
        screen.resize(40, 10)
        screen.until(rf"^Job {first}  fake:ok…$")
        self.assertLessEqual(len(screen.frame()), 9)
        self.host.kill()
        screen.until(r"^NO ANSWER for ")
        self.host.start()
        screen.until(r"1 running, 1 queued")
        self.host.ctl("cancel", first)
        screen.until(rf"^Job {second}  ")
        os.write(screen.terminal, b"\x03")
        self.assertEqual(130, screen.end(), screen.output[-2000:])
        self.assertEqual("RUNNING", self.host.show(second)["state"])
        # It has left no mode behind.
        text = screen.output.decode()
        self.assertEqual({"\x1b[?7l", "\x1b[?7h"},
                         set(re.findall(r"\x1b\[\?\w+", text)))
        self.assertLess(text.rindex("\x1b[?7l"), text.rindex("\x1b[?7h"))
        self.assertIn("stopped watching; jobs go on.", text)


if __name__ == "__main__":
    unittest.main()
