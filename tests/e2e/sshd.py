# SPDX-License-Identifier: Apache-2.0
"""An OpenSSH server of the test's own: on a free port of the loopback, with
keys that the test made, for the account that runs the test."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import harness

PROGRAM = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:"
                       + os.environ.get("PATH", ""))


def make_key(path, passphrase=""):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase,
                    "-f", str(path)], check=True, stdin=subprocess.DEVNULL)
    return path


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = pathlib.Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not stat.parent.parent.is_dir()


class Sshd:
    """Its client's configuration calls the server `studio`."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.port = harness.free_port()
        make_key(folder / "host_key")
        make_key(folder / "key")
        self.authorize("key")
        self.trust("host_key")
        self.client_config()
        self.process = None

    def authorize(self, *keys):
        text = "".join((self.folder / f"{key}.pub").read_text() for key in keys)
        (self.folder / "authorized_keys").write_text(text)

    def trust(self, host_key):
        """The account knows the server by this key; None: by none."""
        key = (self.folder / f"{host_key}.pub").read_text() if host_key else ""
        line = f"[127.0.0.1]:{self.port} {key}" if key else ""
        (self.folder / "known_hosts").write_text(line)

    def client_config(self, *more, key="key"):
        (self.folder / "config").write_text("\n".join([
            "Host studio", "  HostName 127.0.0.1", f"  Port {self.port}",
            f"  User {getpass.getuser()}",
            f"  IdentityFile {self.folder}/{key}", "  IdentitiesOnly yes",
            "  IdentityAgent none", "  GlobalKnownHostsFile /dev/null",
            f"  UserKnownHostsFile {self.folder}/known_hosts",
            *(f"  {line}" for line in more), ""]))
        # ssh looks for its configuration in the home that the system knows.
        program = self.folder / "ssh"
        program.write_text(
            "#!/bin/sh\n"
            f"echo \"$$ $*\" >>'{self.folder}/started'\n"
            f"exec ssh -F '{self.folder}/config' \"$@\"\n")
        program.chmod(0o755)

    def start(self, *more):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", 0o755, exist_ok=True)
        config = self.folder / "sshd_config"
        config.write_text("\n".join([
            *more, f"Port {self.port}", "ListenAddress 127.0.0.1",
            f"HostKey {self.folder}/host_key", "PidFile none",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "StrictModes no", "UsePAM no", "PasswordAuthentication no",
            "KbdInteractiveAuthentication no", "PermitRootLogin yes", ""]))
        self.process = subprocess.Popen(
            [PROGRAM, "-D", "-f", str(config), "-E", f"{self.folder}/log"],
            stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + harness.TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if (self.process.poll() is not None
                        or time.monotonic() > deadline):
                    raise AssertionError("sshd does not start: " + self.said())
                time.sleep(0.02)

    def said(self):
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def _below(self, pid):
        for child in harness.children(pid):
            yield from self._below(child)
            yield child

    def kill(self):
        """The server and every connection."""
        for pid in [*self._below(self.process.pid), self.process.pid]:
            harness._signal(pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def started(self):
        """(pid, arguments) of each ssh that a client started, in order."""
        log = self.folder / "started"
        if not log.exists():
            return []
        lines = (line.split(" ", 1) for line in log.read_text().splitlines()
                 if line.split(" ", 1)[0].isdigit())
        return [(int(pid), words) for pid, words in lines]

    def sessions(self):
        """Pids of the ssh that held tunnels, dead or alive."""
        return [pid for pid, words in self.started() if " -N " in words]
