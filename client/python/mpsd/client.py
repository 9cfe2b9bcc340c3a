# SPDX-License-Identifier: Apache-2.0
"""A daemon, as a program sees it."""

from __future__ import annotations

import json
import os
import pathlib
import time
import uuid
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Union

import grpc

from mpsd import _connect, _errors, _files
from mpsd._errors import INVALID, MpsdError
from mpsd._files import Collector, Data
from mpsd.job import Job
from mpsd.v1 import (artifacts_pb2_grpc, daemon_pb2, daemon_pb2_grpc, job_pb2,
                     jobs_pb2, jobs_pb2_grpc)

Path = Union[str, "os.PathLike[str]"]
Spec = Union[Mapping[str, Any], Path]

_SUBMIT_PATIENCE = 600.0  # s without an answer before submit gives up
_LONGEST_PAUSE = 2.0  # s


class Client:
    """One daemon. Threads may share a client."""

    def __init__(self, server: str = "", *, token: str = "", ca: Path = "",
                 timeout: float = 30.0):
        """`server`: the path of a unix socket, "HOST:PORT", or
        "ssh://[USER@]HOST[:PORT][/PATH]"; else MPSD_SERVER, else the socket of
        this account's own daemon. `token`: for a port; else MPSD_TOKEN. `ca`: a
        PEM file, STATE/tls/ca.crt of the daemon's machine. `timeout`: seconds
        that a small call may take."""
        self.server = server or _connect.default_server()
        self.timeout = timeout
        by_ssh = self.server.startswith("ssh://")
        self._tunnel = _connect.Tunnel(self.server) if by_ssh else None
        self._channel = _connect.open_channel(
            self._tunnel.target if self._tunnel else self.server,
            token or os.environ.get("MPSD_TOKEN", ""), os.fspath(ca))
        self._jobs = jobs_pb2_grpc.JobServiceStub(self._channel)
        self._artifacts = artifacts_pb2_grpc.ArtifactServiceStub(self._channel)
        self._daemon = daemon_pb2_grpc.DaemonServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mpsd.Client {self.server}>"

    def submit(self, spec: Spec, *, data: Optional[Mapping[str, Data]] = None,
               base: Optional[Path] = None, priority: int = 0,
               labels: Optional[Mapping[str, str]] = None,
               after: Sequence[Union[str, Job]] = (), held: bool = False,
               anyway: bool = False, idempotency_key: str = "") -> Job:
        """Uploads the files that the spec names and the daemon lacks, queues
        the job and returns it.

        `spec` is job.json: its path, or its content as a dict. `data` gives
        bytes for paths of the spec: a file, a folder, bytes, or rows (dicts),
        which become JSON Lines. Other relative paths are files of this machine,
        resolved from `base`: the folder of job.json, or the current folder.

        Exactly one job is made, even if the connection breaks: the same request
        is sent under one key until the daemon has answered."""
        parsed, folder = _read(spec)
        place = pathlib.Path(base) if base is not None else folder
        inputs = Collector(parsed, place, data or {}).run()
        model = parsed.get("model")
        if isinstance(model, str) and not model.startswith("job:"):
            local = place / model
            if not pathlib.PurePath(model).is_absolute() and local.is_dir():
                parsed["model"] = str(local.resolve())
        request = jobs_pb2.SubmitRequest(
            spec_json=json.dumps(parsed), priority=priority,
            labels=dict(labels or {}), held=held, anyway=anyway,
            after=[job.id if isinstance(job, Job) else job for job in after],
            idempotency_key=idempotency_key or "python-" + uuid.uuid4().hex)
        for one in inputs:
            request.inputs.add(path=one.path, sha256=one.sha256)
        self.info()  # opens the connection
        begin = time.monotonic()
        self.info()
        request.round_trip_seconds = min(time.monotonic() - begin, 600.0)
        _files.send(self._artifacts, inputs)
        pause, end = 0.2, time.monotonic() + _SUBMIT_PATIENCE
        while True:
            try:
                return Job(self, self._jobs.Submit(request).job)
            except grpc.RpcError as broken:
                error = _errors.from_call(broken)
                if not isinstance(error, _errors.Unreachable) or (
                        time.monotonic() > end):
                    raise error from None
            self._reconnect()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def job(self, id: str) -> Job:
        return Job(self, job_pb2.Job(id=id)).refresh()

    def jobs(self, *, states: Sequence[str] = (), owner: str = "",
             labels: Optional[Mapping[str, str]] = None, text: str = "",
             model: str = "", limit: Optional[int] = None) -> Iterator[Job]:
        """Yields jobs, newest first, page by page."""
        request = jobs_pb2.ListJobsRequest(
            owner=owner, labels=dict(labels or {}), text=text, model=model,
            states=[job_pb2.JobState.Value("JOB_STATE_" + state)
                    for state in states],
            page_size=min(limit, 500) if limit else 0)
        left = limit
        while left is None or left > 0:
            with _errors.translated():
                page = self._jobs.List(request, timeout=self.timeout)
            for message in page.jobs[:left]:
                yield Job(self, message)
            if left is not None:
                left -= len(page.jobs)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def info(self) -> daemon_pb2.InfoResponse:
        asked = daemon_pb2.InfoRequest(you=True)
        with _errors.translated():
            return self._daemon.Info(asked, timeout=self.timeout)

    def _reconnect(self) -> None:
        """Opens the tunnel again if ssh has ended."""
        if self._tunnel is not None:
            try:
                self._tunnel.open()
            except _errors.Unreachable:
                pass  # the next call says so


def _read(spec: Spec) -> "tuple[Dict[str, Any], pathlib.Path]":
    if isinstance(spec, Mapping):
        return dict(spec), pathlib.Path()
    path = pathlib.Path(spec)
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))), path.parent
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise MpsdError(f"{path}: {error}", INVALID) from None
