# SPDX-License-Identifier: Apache-2.0
"""A job of a daemon."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Union

import grpc

from mpsd import _errors, _events
from mpsd._events import Event
from mpsd.v1 import artifacts_pb2, job_pb2, jobs_pb2

if TYPE_CHECKING:
    from mpsd.client import Client

_FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
_FIRST_PAUSE = 0.2  # s; twice as long each time, up to _LONGEST_PAUSE
_LONGEST_PAUSE = 2.0

Path = Union[str, "os.PathLike[str]"]


class Job:
    """A job as of the last request: `refresh()` requests it again. Created by
    Client, not by hand."""

    def __init__(self, client: "Client", message: job_pb2.Job):
        self._client = client
        self.message = message  # all that the API reports (job.proto)

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def state(self) -> str:
        """"QUEUED", "RUNNING", "SUCCEEDED", "FAILED" or "CANCELLED"."""
        return _events.state_name(self.message.state)

    @property
    def ended(self) -> bool:
        return self.state in _FINAL

    @property
    def spec(self) -> Dict[str, Any]:
        """job.json with every default, and the paths of the daemon's machine."""
        return json.loads(self.message.spec_json or "{}")

    @property
    def eval_loss(self) -> Optional[float]:
        m = self.message
        return m.eval_loss_after if m.HasField("eval_loss_after") else None

    def __repr__(self) -> str:
        return f"<mpsd.Job {self.id} {self.message.name!r} {self.state}>"

    def refresh(self) -> "Job":
        with _errors.translated():
            self.message = self._client._jobs.Get(
                jobs_pb2.GetJobRequest(id=self.id), timeout=self._client.timeout)
        return self

    def cancel(self, now: bool = False) -> "Job":
        """Asks the job to save a checkpoint and end; `now`: to end at once."""
        with _errors.translated():
            self.message = self._client._jobs.Cancel(
                jobs_pb2.CancelRequest(id=self.id, now=now),
                timeout=self._client.timeout)
        return self

    def watch(self, after: int = 0, patience: float = 120.0) -> Iterator[Event]:
        """Yields each event after sequence `after`, the past ones first, and
        ends when the job has ended. Waits up to `patience` seconds for an
        unreachable daemon, and resumes where it was."""
        pause, waited = _FIRST_PAUSE, 0.0
        while True:
            stream = self._client._jobs.Watch(
                jobs_pb2.WatchRequest(id=self.id, after_sequence=after))
            error: Exception = _errors.Unreachable(
                "the daemon ended the stream before the job ended")
            try:
                for message in stream:
                    pause, waited, after = _FIRST_PAUSE, 0.0, message.sequence
                    event = _events.from_proto(message)
                    if event is not None:
                        yield event
                if self.refresh().ended:
                    return
            except grpc.RpcError as broken:
                error = _errors.from_call(broken)
            except _errors.Unreachable as away:
                error = away
            finally:
                stream.cancel()
            if not isinstance(error, _errors.Unreachable) or waited >= patience:
                raise error
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._client._reconnect()

    def wait(self, timeout: Optional[float] = None, check: bool = True) -> "Job":
        """Returns when the job has ended. Raises JobFailed if it did not
        succeed, unless `check` is false, and TimeoutError after `timeout`
        seconds; then the job keeps running."""
        end = time.monotonic() + (timeout if timeout is not None else 1e12)
        pause = _FIRST_PAUSE
        while not self.refresh().ended:
            if time.monotonic() >= end:
                raise TimeoutError(f"{self!r} after {timeout} s")
            time.sleep(max(0.0, min(pause, end - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if check and self.state != "SUCCEEDED":
            raise _errors.JobFailed(
                f"job {self.id} {self.state}: {self.message.message}", self)
        return self

    def download(self, folder: Path,
                 checkpoint: Optional[int] = None) -> pathlib.Path:
        """Waits for the job and fetches its result (a PEFT folder, or a
        model's), or fetches the checkpoint of that step; returns the folder,
        which must not exist. Every file is checked against its hash, and
        the folder appears once it is complete."""
        place = pathlib.Path(folder)
        if place.exists() or place.is_symlink():
            raise FileExistsError(f"{place} exists: name a new folder")
        request = artifacts_pb2.DownloadRequest(job_id=self.id)
        if checkpoint is None:
            self.wait()
            request.output = True
        else:
            request.checkpoint_step = checkpoint
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = pathlib.Path(tempfile.mkdtemp(
            prefix=f".{place.name}-", dir=place.parent))
        try:
            with _errors.translated():
                _receive(self._client._artifacts.Download(request), aside)
            aside.chmod(0o755)
            aside.rename(place)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return place


def _receive(parts: Iterator[artifacts_pb2.DownloadResponse],
             folder: pathlib.Path) -> None:
    """Writes the files of a Download, and checks size and hash of each."""
    file, announced, digest = None, None, hashlib.sha256()

    def close() -> None:
        if file is None:
            return
        size = file.tell()
        file.close()
        if (size, digest.hexdigest()) != (announced.size_bytes,
                                          announced.sha256):
            raise _errors.MpsdError(f"{announced.path} arrived with a "
                                    "different hash or size than announced",
                                    grpc.StatusCode.DATA_LOSS)

    try:
        for part in parts:
            if part.HasField("file"):
                close()
                announced, digest = part.file, hashlib.sha256()
                file = open(_place(folder, announced.path), "xb")
            elif file is not None:
                file.write(part.data)
                digest.update(part.data)
        close()
    finally:
        if file is not None:
            file.close()


def _place(folder: pathlib.Path, path: str) -> pathlib.Path:
    relative = pathlib.PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise _errors.MpsdError(f"'{path}' is not a relative path",
                                grpc.StatusCode.DATA_LOSS)
    place = folder.joinpath(*relative.parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
