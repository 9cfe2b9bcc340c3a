# SPDX-License-Identifier: Apache-2.0
"""The connection to a daemon: a unix socket, TLS with a token, or ssh."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable, List, Optional

import grpc

from mpsd._errors import INVALID, MpsdError, Unreachable

_HERE = pathlib.Path(__file__).parent
_SSH = re.compile(r"(ssh://[A-Za-z0-9_+=.\[:][A-Za-z0-9._+=@:\[\]%-]*)(/.*)?")
_SSH_PATIENCE = 60.0  # s
_OPTIONS = [
    # A page of a list may exceed gRPC's default message size.
    ("grpc.max_receive_message_length", 64 << 20),
    # Detects a machine that disappeared silently.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


def default_server() -> str:
    """MPSD_SERVER, else the socket of this account's own daemon."""
    state = os.environ.get("MPSD_STATE_DIR") or pathlib.Path.home() / (
        "Library/Application Support/mpsd" if sys.platform == "darwin"
        else ".local/state/mpsd")
    return os.environ.get("MPSD_SERVER") or f"{state}/mpsd.sock"


class Tunnel:
    """A socket of this machine that is forwarded to a daemon's over ssh: one
    `ssh -N -L`, which ends with this object and with this program. It never
    prompts."""

    def __init__(self, url: str):
        parts = _SSH.fullmatch(url)
        if parts is None or "@-" in url or not url.isprintable():
            raise MpsdError(f"'{url}': expected ssh://[USER@]HOST[:PORT]"
                            "[/PATH/OF/mpsd.sock]", INVALID)
        self._host = parts.group(1)
        self._path = (parts.group(2) or "").rstrip("/")
        self._socket = self._path if self._path.endswith(".sock") else ""
        self._held: Optional["subprocess.Popen[bytes]"] = None
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="mpsd-"))
        try:
            self.open()
        except BaseException:
            self.close()
            raise

    @property
    def target(self) -> str:
        return f"unix:{self._folder}/s"

    def open(self) -> None:
        """Starts ssh again if it has ended."""
        if self._held is not None and self._held.poll() is None:
            return
        if not self._socket:
            self._socket = self._find()
        remote = re.sub(r"([\\:])", r"\\\1", self._socket).replace("%", "%%")
        if "${" in remote or not remote.isprintable():
            raise MpsdError(f"ssh cannot forward the socket {remote!r}", INVALID)
        self._run(["-N", "-L", f"{self._folder}/s:{remote}", "--", self._host])
        self._await(self._connects)
        if not self._connects():
            raise self._complaint()

    def close(self) -> None:
        if self._held is not None and self._held.stdin is not None:
            self._held.stdin.close()  # ends ssh
            self._held.wait(5)
        self._held = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _find(self) -> str:
        """The path of mpsd's socket on the host, queried over ssh."""
        self._run(["-T", "-o", "ClearAllForwardings=yes", "-o", "StdinNull=no",
                   "-o", "SessionType=default", "--", self._host,
                   "exec /bin/sh -s"],
                  f"place={shlex.quote(self._path)}\n"
                  + (_HERE / "find_socket.sh").read_text(encoding="utf-8"))
        self._await(lambda: False)
        for line in self._read("out").splitlines():
            word, _, path = line.partition(" ")
            if word == "mpsd-socket":
                return path
        raise self._complaint()

    def _run(self, words: List[str], script: str = "") -> None:
        for name in ("s", "code"):
            (self._folder / name).unlink(missing_ok=True)
        (self._folder / "in").write_text(script, encoding="utf-8")
        self._held = subprocess.Popen(
            ["/bin/sh", "-c", (_HERE / "hold.sh").read_text(encoding="utf-8"),
             "sh", str(self._folder), *words],
            stdin=subprocess.PIPE, start_new_session=True)

    def _await(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + _SSH_PATIENCE
        assert self._held is not None
        while self._held.poll() is None and not ready():
            if time.monotonic() > end:
                raise self._complaint()
            time.sleep(0.02)

    def _connects(self) -> bool:
        with socket.socket(socket.AF_UNIX) as end:
            return end.connect_ex(f"{self._folder}/s") == 0

    def _read(self, name: str) -> str:
        file = self._folder / name
        return file.read_text(errors="replace") if file.exists() else ""

    def _complaint(self) -> MpsdError:
        said = self._read("err").strip()
        text = f"{self._host}{self._path}: ssh says: {said or 'nothing'}"
        if re.search(r"Permission denied \(|Host key verification", said):
            return MpsdError(text, grpc.StatusCode.UNAUTHENTICATED)
        return Unreachable(text, grpc.StatusCode.UNAVAILABLE)


def open_channel(server: str, token: str, ca: str) -> grpc.Channel:
    """`server`: HOST:PORT over TLS, or a unix socket as for mpsctl. `ca`: the
    PEM file of the daemon's authority, else those that gRPC trusts."""
    path = re.sub("^unix:(//)?", "", server)
    if path != server or path.startswith(("/", "./", "../")):
        return grpc.insecure_channel("unix:" + os.path.abspath(path), _OPTIONS)
    if not re.fullmatch(r".+:\d+", server):
        raise MpsdError(f"'{server}': expected HOST:PORT, ssh://HOST, the path "
                        "of a unix socket or unix:PATH", INVALID)
    credentials = grpc.ssl_channel_credentials(
        pathlib.Path(ca).read_bytes() if ca else None)
    if token:
        credentials = grpc.composite_channel_credentials(
            credentials, grpc.access_token_call_credentials(token))
    return grpc.secure_channel(server, credentials, _OPTIONS)
