# SPDX-License-Identifier: Apache-2.0
"""A daemon behind ssh: the system's own ssh forwards its socket, as mpsctl
does, with the same script and the same settings (ssh_script.sh,
ssh_settings.txt). The tunnel ends with the client."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import select
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import weakref
from typing import List, Optional

from mpsd._errors import Invalid, NotSignedIn, Refused, Unreachable

_SESSION = 60.0  # s until ssh has logged in
_FORWARD = 15.0  # s
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # s between tries of a broken tunnel
_LONGEST_SOCKET = 103  # bytes of a path, on the system with the shortest ones
_MOST_OUTPUT = 64 << 10  # bytes that a session may print
_HERE = pathlib.Path(__file__).parent
_WORD = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,254}")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")


@dataclasses.dataclass(frozen=True)
class Url:
    """ssh://[user@]host[:port][/path/of/mpsd.sock]"""

    host: str
    user: str = ""
    port: str = ""
    path: str = ""


def parse(text: str) -> Url:
    """No host and no user can pass for an option of ssh, nor hold a character
    that a shell reads."""
    place, slash, path = text[len("ssh://"):].partition("/")
    path = urllib.parse.unquote(slash + path)
    user, at, place = place.rpartition("@")
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        sound = bool(bracket) and _ADDRESS.fullmatch(host) is not None
    else:
        host, colon, port = place.partition(":")
        rest = colon + port
        sound = _WORD.fullmatch(host) is not None
    if (not sound or (rest and not re.fullmatch(r":[0-9]{1,5}", rest))
            or (at and not _WORD.fullmatch(user)) or not path.isprintable()):
        raise Invalid(f"{text!r}: expected ssh://[USER@]HOST[:PORT]"
                      "[/PATH/OF/mpsd.sock], as in ssh://ann@studio.local")
    return Url(host, user, rest[1:], "" if path == "/" else path)


class Tunnel:
    """Opened when it is made; raises Unreachable, NotSignedIn or Refused with
    what ssh said. A tunnel that breaks is opened again, under the same name,
    until close()."""

    def __init__(self, text: str):
        self._text, self._url = text, parse(text)
        parent = os.environ.get("XDG_RUNTIME_DIR") or None
        if parent is not None and (len(parent) > 50
                                   or not os.access(parent, os.W_OK)):
            parent = "/tmp"
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd-",
                                                     dir=parent))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder,
                                        ignore_errors=True)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ssh: Optional[subprocess.Popen[bytes]] = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=_keep, args=(weakref.ref(self),
                                             self._closed), daemon=True).start()

    @property
    def target(self) -> str:
        return f"unix:{self._folder}/s"

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._end()
        self._remove()

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self._closed.set()
        if hasattr(self, "_ssh"):
            self._end()

    def _broken(self) -> Optional["subprocess.Popen[bytes]"]:
        return self._ssh

    def _again(self) -> bool:
        with self._lock:
            if self._closed.is_set():
                return True
            try:
                self._end()
                self._start()
            except (Unreachable, NotSignedIn, Refused):
                return False
            return True

    def _end(self) -> None:
        ssh, self._ssh = self._ssh, None
        if ssh is None:
            return
        assert ssh.stdin is not None and ssh.stdout is not None
        ssh.stdin.close()  # the script at the other end waits for this
        ssh.terminate()
        try:
            ssh.wait(5)
        except subprocess.TimeoutExpired:
            ssh.kill()
            ssh.wait()
        ssh.stdout.close()

    def _start(self) -> None:
        for name in ("c", "s"):
            (self._folder / name).unlink(missing_ok=True)
        script = f"place={shlex.quote(self._url.path)}\n" + (
            _HERE / "ssh_script.sh").read_text(encoding="utf-8")
        with open(self._folder / "e", "wb") as said:
            try:
                self._ssh = subprocess.Popen(
                    self._session(), stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=said, start_new_session=True)
            except OSError as error:
                raise Unreachable(f"{_program()}: {error.strerror}: install the "
                                  "client of OpenSSH, or name the program with "
                                  "MPSD_SSH") from None
        assert self._ssh.stdin is not None
        try:
            self._ssh.stdin.write(script.encode())
            self._ssh.stdin.flush()
        except BrokenPipeError:
            pass  # what ssh said tells why
        remote = self._find()
        if len(remote.encode()) > _LONGEST_SOCKET or not remote.isprintable():
            raise Unreachable(f"ssh cannot forward a socket of the name "
                              f"{remote!r}")
        escaped = re.sub(r"([\\:])", r"\\\1", remote).replace("%", "%%")
        forwarded = subprocess.run(
            [_program(), "-F", "/dev/null", "-S", str(self._folder / "c"), "-o",
             "BatchMode=yes", "-O", "forward", "-L",
             f"{self._folder}/s:{escaped}", "--", "mpsd"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_FORWARD,
            check=False)
        if forwarded.returncode != 0:
            raise Refused(f"{self._text}: ssh does not forward the socket: "
                          + forwarded.stderr.decode(errors="replace").strip())

    def _session(self) -> List[str]:
        words = [_program(), "-M", "-S", str(self._folder / "c"), "-T", "-a",
                 "-x", "-o", "BatchMode=yes"]
        for line in (_HERE / "ssh_settings.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                words += ["-o", line]
        if self._url.user:
            words += ["-l", self._url.user]
        if self._url.port:
            words += ["-p", self._url.port]
        return [*words, "--", self._url.host, "exec /bin/sh -s"]

    def _find(self) -> str:
        """The path of mpsd's socket at the host."""
        assert self._ssh is not None and self._ssh.stdout is not None
        output, looked, refused = b"", [], []
        end = time.monotonic() + _SESSION
        while time.monotonic() < end and len(output) < _MOST_OUTPUT:
            if self._closed.is_set():
                raise Unreachable(f"{self._text}: closed meanwhile")
            if not select.select([self._ssh.stdout], [], [], 0.5)[0]:
                continue
            got = os.read(self._ssh.stdout.fileno(), 4096)
            if not got:
                self._ssh.wait(5)
                raise self._complaint()
            output += got
            whole = output[:output.rfind(b"\n") + 1].decode(errors="replace")
            looked, refused = [], []
            for line in whole.splitlines():
                word, _, path = line.partition(" ")
                if word == "mpsd-socket":
                    return path
                if word == "mpsd-looked":
                    looked.append(path)
                if word == "mpsd-refused":
                    refused.append(path)
                if word == "mpsd-none" and refused:
                    raise Refused(f"{self._text}: the account that ssh logs in "
                                  f"to may not open mpsd's socket {refused[0]}")
                if word == "mpsd-none":
                    raise Unreachable(f"{self._text}: no mpsd runs there: there "
                                      "is no socket at " + ", ".join(looked))
        raise Unreachable(f"{self._text}: lets nobody in within a minute")

    def _complaint(self) -> Exception:
        said = (self._folder / "e").read_text(errors="replace").strip()
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        text = f"{self._text}: ssh says: " + (
            "; ".join(lines[-3:]) if lines else "nothing")
        if re.search(r"Permission denied|[Hh]ost key|IDENTIFICATION", said):
            return NotSignedIn(text)
        return Unreachable(text)


def _program() -> str:
    return os.environ.get("MPSD_SSH") or "ssh"


def _keep(tunnel: "weakref.ref[Tunnel]", closed: threading.Event) -> None:
    """Opens the tunnel again where ssh has ended."""
    pause = _FIRST_PAUSE
    while not closed.wait(pause):
        mine = tunnel()
        if mine is None:
            return
        ssh = mine._broken()  # pylint: disable=protected-access
        if ssh is not None and ssh.poll() is None:
            pause = _FIRST_PAUSE
        elif mine._again():  # pylint: disable=protected-access
            pause = _FIRST_PAUSE
        else:
            pause = min(2 * pause, _LONGEST_PAUSE)
        del mine
