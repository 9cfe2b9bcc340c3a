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
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional,
                    Union)

import grpc

from mpsd import _errors, _events
from mpsd._events import CheckpointWritten, Event
from mpsd.v1 import artifacts_pb2, job_pb2, jobs_pb2

if TYPE_CHECKING:
    import datetime

    from mpsd.client import Client

_FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")
_FIRST_PAUSE = 0.2  # s; twice as long each time, up to _LONGEST_PAUSE
_LONGEST_PAUSE = 2.0

Path = Union[str, "os.PathLike[str]"]


class Job:
    """A job as it was when it was last asked for: `refresh()` asks again. Made
    by Client, not by hand."""

    def __init__(self, client: "Client", message: job_pb2.Job):
        self._client = client
        self._message = message

    @property
    def message(self) -> job_pb2.Job:
        """All that the API tells (proto/mpsd/v1/job.proto)."""
        return self._message

    @property
    def id(self) -> str:
        return self._message.id

    @property
    def name(self) -> str:
        return self._message.name

    @property
    def state(self) -> str:
        """"QUEUED", "RUNNING", "SUCCEEDED", "FAILED" or "CANCELLED"."""
        return _events.state_name(self._message.state)

    @property
    def ended(self) -> bool:
        return self.state in _FINAL

    @property
    def reason(self) -> str:
        """Why it failed, or how its last attempt ended, in words."""
        return self._message.message

    @property
    def owner(self) -> str:
        return self._message.owner

    @property
    def labels(self) -> Dict[str, str]:
        return dict(self._message.labels)

    @property
    def priority(self) -> int:
        return self._message.priority

    @property
    def spec(self) -> Dict[str, Any]:
        """job.json with every default, and the paths of the daemon's machine."""
        return json.loads(self._message.spec_json or "{}")

    @property
    def metrics(self) -> Dict[str, float]:
        """The task's metrics of the latest evaluation: "accuracy", "f1" …"""
        return dict(self._message.metrics)

    @property
    def eval_loss(self) -> Optional[float]:
        m = self._message
        return m.eval_loss_after if m.HasField("eval_loss_after") else None

    @property
    def create_time(self) -> "datetime.datetime":
        return _events.to_datetime(self._message.create_time)

    @property
    def queue_position(self) -> Optional[int]:
        """Jobs ahead of this one; None unless it is QUEUED."""
        m = self._message
        return m.queue_position if m.HasField("queue_position") else None

    def __repr__(self) -> str:
        return f"<mpsd.Job {self.id} {self.name!r} {self.state}>"

    def refresh(self) -> "Job":
        return self._change(self._jobs.Get, jobs_pb2.GetJobRequest(id=self.id))

    # --- What becomes of it.

    def watch(self, after: int = 0, patience: float = 120.0) -> Iterator[Event]:
        """Yields each event after sequence `after`, the past ones first, and
        ends when the job has ended. Waits up to `patience` seconds for a daemon
        that went away, and goes on where it was."""
        pause, waited = _FIRST_PAUSE, 0.0
        while True:
            stream = self._jobs.Watch(
                jobs_pb2.WatchRequest(id=self.id, after_sequence=after))
            try:
                for message in stream:
                    pause, waited, after = _FIRST_PAUSE, 0.0, message.sequence
                    event = _events.from_proto(message)
                    if event is not None:
                        yield event
                if self._refreshed_end():
                    return
                error: _errors.MpsdError = _errors.Unreachable(
                    "the daemon ended the stream before the job did")
            except grpc.RpcError as broken:
                error = _errors.from_call(broken)
            finally:
                stream.cancel()
            if not isinstance(error, _errors.Unreachable) or waited >= patience:
                raise error
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _refreshed_end(self) -> bool:
        return self.refresh().ended

    def wait(self, timeout: Optional[float] = None,
             check: bool = True) -> "Job":
        """Returns when the job has ended. Raises JobFailed where it did not
        succeed, unless `check` is false, and TimeoutError after `timeout`
        seconds; the job goes on then."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while not self.refresh().ended:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {self.id} is {self.state} after "
                                   f"{timeout} s; it goes on")
            time.sleep(pause if until is None else
                       max(0.0, min(pause, until - time.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if check and self.state != "SUCCEEDED":
            raise _errors.JobFailed(
                f"job {self.id} {self.state}: {self.reason}", self)
        return self

    def result(self, folder: Optional[Path] = None,
               checkpoint: Optional[int] = None,
               timeout: Optional[float] = None) -> pathlib.Path:
        """Waits for the job, fetches its result (a PEFT folder, or a model's)
        or the checkpoint of that step, and returns its folder. `folder` must
        not exist; None makes a new one below the current folder, named after
        the job. Every file is checked against its hash, and the folder appears
        once it is whole."""
        if checkpoint is None:
            self.wait(timeout)
            what: Dict[str, Any] = {"output": True}
        else:
            what = {"checkpoint_step": checkpoint}
        default = f"{self.id}-result" if checkpoint is None else (
            f"{self.id}-step-{checkpoint}")
        return self._download(pathlib.Path(folder or default), what)

    def predictions(self, folder: Path) -> pathlib.Path:
        """Fetches the predictions for dataset.predict into a new folder."""
        self.wait()
        return self._download(pathlib.Path(folder), {"predictions": True})

    def curves(self, folder: Path) -> pathlib.Path:
        """Fetches run.json, metrics.jsonl, eval.jsonl and TensorBoard's event
        files into a new folder, as far as they are written."""
        return self._download(pathlib.Path(folder), {"curves": True})

    def log(self, follow: bool = False) -> Iterator[str]:
        """Yields the job's log, line by line; with `follow` until it ends."""
        left = b""
        with _errors.translated():
            for chunk in self._jobs.Logs(
                    jobs_pb2.LogsRequest(id=self.id, follow=follow)):
                *lines, left = (left + chunk.data).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")
        if left:
            yield left.decode(errors="replace")

    def checkpoints(self) -> List[CheckpointWritten]:
        """Those that exist on the daemon's disk, oldest first."""
        with _errors.translated():
            found = self._jobs.Checkpoints(
                jobs_pb2.CheckpointsRequest(id=self.id))
        return [CheckpointWritten(0, _events.to_datetime(c.create_time), c.step,
                                  c.size_bytes) for c in found.checkpoints]

    # --- What to do with it.

    def cancel(self, now: bool = False) -> "Job":
        """Asks the job to end; with `now` its worker is killed at once."""
        return self._change(self._jobs.Cancel,
                            jobs_pb2.CancelRequest(id=self.id, now=now))

    def retry(self, from_scratch: bool = False) -> "Job":
        """Runs it again: from its last checkpoint, or without what it had."""
        return self._change(
            self._jobs.Retry,
            jobs_pb2.RetryRequest(id=self.id, from_scratch=from_scratch))

    def hold(self, reason: str = "") -> "Job":
        """Keeps a queued job from starting until release()."""
        return self._change(self._jobs.Hold,
                            jobs_pb2.HoldRequest(id=self.id, reason=reason))

    def release(self) -> "Job":
        return self._change(self._jobs.Release,
                            jobs_pb2.ReleaseRequest(id=self.id))

    def pin(self) -> "Job":
        """Keeps the job and its results from being deleted."""
        return self._change(self._jobs.Pin, jobs_pb2.PinRequest(id=self.id))

    def unpin(self) -> "Job":
        return self._change(self._jobs.Unpin, jobs_pb2.UnpinRequest(id=self.id))

    def clone(self, changes: Optional[Dict[str, Any]] = None,
              **options: Any) -> "Job":
        """Submits a job like this one. `changes` has values for fields of the
        spec by their paths ("training.learning_rate": 1e-4; None takes a field
        out); `options` are those of Client.submit."""
        with _errors.translated():
            request = self._jobs.GetSubmission(
                jobs_pb2.GetSubmissionRequest(id=self.id))
        spec = json.loads(request.spec_json)
        for path, value in (changes or {}).items():
            _set(spec, path, value)
        return self._client._submit_again(spec, request, options)

    def delete(self) -> int:
        """Removes a job that has ended, with its results; returns the bytes
        freed on the daemon's disk."""
        with _errors.translated():
            return self._jobs.Delete(
                jobs_pb2.DeleteRequest(id=self.id)).freed_bytes

    @property
    def _jobs(self) -> Any:
        return self._client._jobs

    def _change(self, call: Callable[..., job_pb2.Job],
                request: object) -> "Job":
        with _errors.translated():
            self._message = call(request, timeout=self._client.timeout)
        return self

    def _download(self, folder: pathlib.Path,
                  what: Dict[str, Any]) -> pathlib.Path:
        if folder.exists() or folder.is_symlink():
            raise _errors.Conflict(f"{folder} exists: name a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = pathlib.Path(tempfile.mkdtemp(
            prefix=f".{folder.name}-", dir=folder.parent))
        try:
            with _errors.translated():
                _receive(self._client._artifacts.Download(
                    artifacts_pb2.DownloadRequest(job_id=self.id, **what)),
                         aside)
            aside.chmod(0o755)
            aside.rename(folder)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return folder


def _set(spec: Dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    place = spec
    for name in parents:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise _errors.Invalid(f"{path}: {name} is no object of the spec")
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value


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
            raise _errors.DataLoss(f"{announced.path} arrived with another "
                                   "hash or size than announced")

    try:
        for part in parts:
            if part.HasField("file"):
                close()
                announced, digest = part.file, hashlib.sha256()
                file = open(_place(folder, announced.path), "xb")
            elif file is None:
                raise _errors.DataLoss("data came before any file")
            else:
                file.write(part.data)
                digest.update(part.data)
        if file is None:
            raise _errors.DataLoss("there are no files in the answer")
        close()
    finally:
        if file is not None:
            file.close()


def _place(folder: pathlib.Path, path: str) -> pathlib.Path:
    relative = pathlib.PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise _errors.DataLoss(f"'{path}' is no relative path")
    place = folder.joinpath(*relative.parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
