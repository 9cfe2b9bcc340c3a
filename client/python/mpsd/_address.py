# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is, found as mpsctl finds it: its contexts (`mpsctl login`)
and its environment variables count here too."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
from typing import Any, Dict, Optional, Union

from mpsd import _tunnel
from mpsd._errors import Invalid, NotFound, NotSignedIn

Path = Union[str, "os.PathLike[str]"]

_LOCAL = "local"
_CONTEXT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclasses.dataclass(frozen=True)
class Address:
    """A daemon, and what it takes to be let in there."""

    target: str  # "unix:/…/mpsd.sock", "ssh://HOST…" or "HOST:PORT"
    tls: bool = False
    ca_pem: Optional[bytes] = None  # None: the authorities that gRPC trusts
    token: str = dataclasses.field(default="", repr=False)


def find_daemon(server: str = "", context: str = "", state_dir: Path = "",
                token: str = "", ca: Path = "") -> Address:
    """The daemon that mpsctl with the same options would talk to: `server`,
    else `context`, `state_dir`, MPSD_SERVER, MPSD_CONTEXT, MPSD_STATE_DIR, the
    current context, the socket of this account's own daemon. `token` and `ca`
    (a PEM file) go before those of a context."""
    address = _choose(server, context, state_dir)
    if address.target.startswith(("unix:", "ssh://")):
        return address
    changes: Dict[str, Any] = {}
    if token:
        changes["token"] = token
    if ca:
        changes.update(ca_pem=pathlib.Path(ca).read_bytes(), tls=True)
    return dataclasses.replace(address, **changes)


def _choose(server: str, context: str, state_dir: Path) -> Address:
    if server:
        return _at(server)
    if context:
        return _in_context(context)
    if state_dir:
        return _socket(pathlib.Path(state_dir) / "mpsd.sock")
    if os.environ.get("MPSD_SERVER"):
        return _at(os.environ["MPSD_SERVER"])
    if os.environ.get("MPSD_CONTEXT"):
        return _in_context(os.environ["MPSD_CONTEXT"])
    if os.environ.get("MPSD_STATE_DIR"):
        return _socket(pathlib.Path(os.environ["MPSD_STATE_DIR"]) / "mpsd.sock")
    current = contexts_folder() / "current"
    name = current.read_text().strip() if current.is_file() else _LOCAL
    return _in_context(name or _LOCAL)


def _socket(path: Path) -> Address:
    return Address("unix:" + os.path.abspath(path))


def _at(server: str) -> Address:
    for start in ("unix://", "unix:"):
        if server.startswith(start):
            return _socket(server[len(start):])
    if server.startswith(("/", "./", "../")):
        return _socket(server)
    if server.startswith("ssh://"):
        _tunnel.parse(server)
        return Address(server)
    host, colon, port = server.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise Invalid(f"'{server}': expected HOST:PORT, ssh://HOST, the path "
                      "of a unix socket or unix:PATH")
    for file in sorted(contexts_folder().glob("*.json")):
        try:
            if json.loads(file.read_text()).get("server") == server:
                return _in_context(file.stem)
        except (OSError, ValueError, AttributeError):
            continue  # another context that is broken is no obstacle
    return Address(server, tls=not is_loopback(host.strip("[]")),
                   token=os.environ.get("MPSD_TOKEN", ""))


def is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def default_state_dir() -> pathlib.Path:
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library/Application Support/mpsd"
    return pathlib.Path.home() / ".local/state/mpsd"


def contexts_folder() -> pathlib.Path:
    if sys.platform == "darwin":
        return pathlib.Path.home() / "Library/Application Support/mpsctl/contexts"
    config = os.environ.get("XDG_CONFIG_HOME")
    base = pathlib.Path(config) if config else pathlib.Path.home() / ".config"
    return base / "mpsd/contexts"


def _in_context(name: str) -> Address:
    if name == _LOCAL:
        return _socket(default_state_dir() / "mpsd.sock")
    if not _CONTEXT_NAME.fullmatch(name):
        raise Invalid(f"'{name}' is no name of a context")
    file = contexts_folder() / f"{name}.json"
    try:
        mode = file.stat().st_mode
        context = json.loads(file.read_text())
    except FileNotFoundError:
        raise NotFound(f"there is no context {name}: `mpsctl context list` "
                       "shows those there are, `mpsctl login` makes one"
                       ) from None
    except ValueError as error:
        raise Invalid(f"{file}: {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _open_to_others(file)
    if not isinstance(context, dict) or context.get("format") != 1:
        raise Invalid(f"{file}: written by another release of mpsctl")
    token = context.get("token", "")
    if context.get("token_in_keychain"):
        token = _from_keychain(name)
    return Address(
        context["server"], tls=bool(context.get("tls", True)),
        ca_pem=context["ca"].encode() if context.get("ca") else None,
        token=token)


def _open_to_others(file: pathlib.Path) -> Invalid:
    return Invalid(f"{file}: others may read it, and it holds a token: "
                   f"`chmod 600 {file}`")


def _from_keychain(context: str) -> str:
    found = subprocess.run(
        ["/usr/bin/security", "find-generic-password", "-s", "mpsctl", "-a",
         context, "-w"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise NotSignedIn(f"the keychain does not give the token of {context}: "
                          f"{found.stderr.strip()}")
    return found.stdout.strip()
