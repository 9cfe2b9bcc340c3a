# SPDX-License-Identifier: Apache-2.0
"""`mpsctl watch` without an id on a pseudoterminal, with the real mpsd."""

import fcntl
import re
import struct
import termios

import harness

FRAME = re.compile(r"\x1b\[\?7l\x1b\[H(.*?)\x1b\[J\x1b\[\?7h", re.S)


class Screen(harness.Terminal):
    def resize(self, columns, rows):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ,
                    struct.pack("HHHH", rows, columns, 0, 0))

    def frame(self):
        """The lines that the terminal shows: the last whole picture."""
        frames = FRAME.findall(self.text)
        return re.split(r"\x1b\[K\r+\n", frames[-1])[:-1] if frames else []

    def find(self, pattern):
        """In a line of the picture."""
        return next(filter(None, (re.search(pattern, line)
                                  for line in self.frame())), None)


class WatchTest(harness.EndToEndTest):
    def test_follows_what_runs_until_ctrl_c(self):
        daemon = self.daemon(worker="fake_worker")
        job = harness.write_job(self.folder, called="fake:ok-slow",
                                training={"max_steps": 20_000})
        first, second = daemon.submit(job)["id"], daemon.submit(job)["id"]
        screen = Screen([str(harness.BIN / "mpsctl"), *daemon.options, "watch"],
                        harness.environment(LANG="C.UTF-8"))
        self.addCleanup(screen.close)
        screen.until(r"1 running, 1 queued")
        screen.until(rf"^Job {first}  fake:ok-slow")
        step = screen.until(r"step (\d+)/20000  ETA ").group(1)
        screen.until(rf"step (?!{step}/)\d+/20000")
        screen.until(r"^loss \d\.\d+ [▁-█]{2}")
        screen.until(r"^memory 1\.0 MiB")
        screen.until(rf"^  1  {second[-8:]}  ")
        # It follows a new size, a daemon that comes back, and the next job.
        screen.resize(40, 10)
        screen.until(rf"^Job {first}  fake:ok…$")
        self.assertLessEqual(len(screen.frame()), 9)
        daemon.kill()
        screen.until(r"^NO ANSWER for ")
        daemon.start()
        screen.until(r"1 running, 1 queued")
        daemon.ctl("cancel", first)
        screen.until(rf"^Job {second}  ")
        screen.type(b"\x03")
        self.assertEqual(130, screen.wait(), screen.text[-2000:])
        self.assertEqual("RUNNING", daemon.state(second))
        # It has left the terminal in no other mode.
        text = screen.text
        self.assertEqual({"\x1b[?7l", "\x1b[?7h"},
                         set(re.findall(r"\x1b\[\?\w+", text)))
        self.assertLess(text.rindex("\x1b[?7l"), text.rindex("\x1b[?7h"))
        self.assertIn("Detached; jobs are still running.", text)
