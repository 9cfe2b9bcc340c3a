# SPDX-License-Identifier: Apache-2.0
"""A real terminal for tests: tmux, whose screens can be read."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import harness

TMUX = shutil.which("tmux")


class Terminal:
    """A shell in a detached tmux of its own, in which a command runs."""

    def __init__(self, command, columns=80, rows=24, term="screen-256color",
                 **environment):
        self.folder = tempfile.mkdtemp(prefix="tmux")
        self.socket = os.path.join(self.folder, "s")
        # A shell lives on behind the command, to show what it left.
        self.environment = harness.environment(
            TERM=term, PS1="$ ", SHELL="/bin/sh", ENV="",
            **{"LANG": "C.UTF-8", **environment})
        self.environment.pop("TMUX", None)
        for name in ("LC_ALL", "LC_CTYPE"):
            self.environment.pop(name, None)
        # tmux itself always speaks UTF-8 here, and tells the shell no other
        # terminal than the one the test asked for.
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns),
                  "-y", str(rows),
                  "env", f"TERM={term}", *(f"{k}={v}" for k, v in
                                           environment.items()), "/bin/sh")
        self.type(command)

    def tmux(self, *args):
        return subprocess.run(
            [TMUX, "-u", "-S", self.socket, *args], env=self.environment,
            capture_output=True, text=True, check=True, timeout=harness.TIMEOUT
        ).stdout

    def type(self, command):
        """A command line for the shell."""
        words = command if isinstance(command, str) else shlex.join(command)
        self.tmux("send-keys", "-l", words)
        self.keys("Enter")

    def keys(self, *names):
        """Keys by tmux's names: "Enter", "Down", "q", "C-c"."""
        self.tmux("send-keys", *names)

    def screen(self):
        """The lines of the screen."""
        return self.tmux("capture-pane", "-p").splitlines()

    def text(self):
        return "\n".join(self.screen())

    def styled(self):
        """The screen with its attributes, as escape sequences."""
        return self.tmux("capture-pane", "-p", "-e")

    def until(self, pattern, absent=False):
        """Waits for a screen that has (`absent`: has no) match; the match."""
        deadline = time.monotonic() + harness.TIMEOUT
        while True:
            text = self.text()
            match = re.search(pattern, text, re.M)
            if bool(match) != absent:
                return match
            if time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} in\n{text}"
                                     if not absent else
                                     f"still {pattern!r} in\n{text}")
            time.sleep(0.05)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def pid(self, name):
        """The process of that name below the shell."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        for child in harness.children(shell):
            command = subprocess.run(
                ["ps", "-o", "comm=", "-p", str(child)], capture_output=True,
                text=True, check=False).stdout.strip()
            if os.path.basename(command) == name:
                return child
        raise AssertionError(f"no {name} runs in\n{self.text()}")

    def modes(self):
        """What the terminal is in: (alternate screen, cursor is seen)."""
        return tuple(self.tmux("display-message", "-p",
                               "#{alternate_on} #{cursor_flag}").split())

    def close(self):
        subprocess.run([TMUX, "-S", self.socket, "kill-server"],
                       env=self.environment, capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
