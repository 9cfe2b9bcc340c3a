# SPDX-License-Identifier: Apache-2.0
"""A daemon, as a program sees it."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import os
import pathlib
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

import grpc

from mpsd import _channel, _errors, _uploads
from mpsd._address import Address, find_daemon
from mpsd._inputs import Collector, Data, Input, of_file
from mpsd._tunnel import Tunnel
from mpsd.job import Job
from mpsd.v1 import (access_pb2, access_pb2_grpc, artifacts_pb2_grpc,
                     daemon_pb2, daemon_pb2_grpc, job_pb2, jobs_pb2,
                     jobs_pb2_grpc, models_pb2, models_pb2_grpc)

Path = Union[str, "os.PathLike[str]"]
Spec = Union[Mapping[str, Any], str, "os.PathLike[str]"]

_SUBMIT_PATIENCE = 600.0  # s without an answer before Submit gives up
_LONGEST_PAUSE = 2.0  # s


class Client:
    """One daemon. Threads may share a client. The address is found as mpsctl
    finds it; see mpsd.find_daemon for the arguments."""

    def __init__(self, server: Union[str, Address] = "", *, context: str = "",
                 state_dir: Path = "", token: str = "", ca: Path = "",
                 timeout: float = 30.0):
        """`timeout`: seconds that a call which changes or reads little may
        take."""
        self.address = server if isinstance(server, Address) else find_daemon(
            server, context, state_dir, token, ca)
        self.timeout = timeout
        self._tunnel: Optional[Tunnel] = None
        reached = self.address
        if reached.target.startswith("ssh://"):
            self._tunnel = Tunnel(reached.target)
            reached = dataclasses.replace(reached, target=self._tunnel.target)
        self._channel = _channel.open_channel(reached)
        self._jobs = jobs_pb2_grpc.JobServiceStub(self._channel)
        self._artifacts = artifacts_pb2_grpc.ArtifactServiceStub(self._channel)
        self._daemon = daemon_pb2_grpc.DaemonServiceStub(self._channel)
        self._access = access_pb2_grpc.AccessServiceStub(self._channel)
        self._models = models_pb2_grpc.ModelServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mpsd.Client {self.address.target}>"

    # --- Jobs.

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
        counted from `base`: the folder of job.json, or the current folder.

        One job is made, even where the connection breaks: the same request goes
        out under one key until the daemon has answered. Raises Invalid with the
        field and what was expected, Conflict where the model is not there."""
        content, folder = _read(spec)
        place = pathlib.Path(base) if base is not None else folder
        text = content if isinstance(content, str) else json.dumps(content)
        parsed = _parsed(text)
        inputs = Collector(parsed, place, data or {}).run()
        model = parsed.get("model")
        if isinstance(model, str) and not model.startswith("job:"):
            local = place / model
            if not pathlib.PurePath(model).is_absolute() and local.is_dir():
                parsed["model"] = str(local.resolve())
                text = json.dumps(parsed)
        request = jobs_pb2.SubmitRequest(
            spec_json=text, priority=priority, labels=dict(labels or {}),
            after=[_id(job) for job in after], held=held, anyway=anyway,
            idempotency_key=idempotency_key)
        for one in inputs:
            request.inputs.add(path=one.path, sha256=one.sha256)
        _uploads.send(self._artifacts, inputs)
        return self._submit(request, lambda: _uploads.send(self._artifacts,
                                                           inputs))

    def _submit_again(self, spec: Dict[str, Any],
                      request: jobs_pb2.SubmitRequest,
                      options: Dict[str, Any]) -> Job:
        """A request of before with another spec; its inputs are the daemon's."""
        again = jobs_pb2.SubmitRequest(
            spec_json=json.dumps(spec), inputs=request.inputs,
            priority=options.pop("priority", request.priority),
            labels=options.pop("labels", dict(request.labels)),
            after=[_id(job) for job in options.pop("after", ())],
            held=options.pop("held", False),
            anyway=options.pop("anyway", request.anyway), kind=request.kind,
            idempotency_key=options.pop("idempotency_key", ""))
        if options:
            raise TypeError(f"clone() has no option '{min(options)}'")
        return self._submit(again, lambda: None)

    def _submit(self, request: jobs_pb2.SubmitRequest, upload: Any) -> Job:
        if not request.idempotency_key:
            request.idempotency_key = "python-" + uuid.uuid4().hex
        pause, end, uploaded = 0.2, time.monotonic() + _SUBMIT_PATIENCE, False
        with _errors.translated():  # nothing is queued where none answers
            # The first call may have made the connection, which takes several
            # trips.
            took = min(self._info_seconds(), self._info_seconds())
        request.round_trip_seconds = min(took, 600.0)  # for its record
        while True:
            try:
                return Job(self, self._jobs.Submit(request).job)
            except grpc.RpcError as error:
                lacks = (error.code() == grpc.StatusCode.FAILED_PRECONDITION
                         and "has not been uploaded" in (error.details() or ""))
                if lacks and not uploaded:
                    uploaded = True
                    upload()
                    continue
                if not _errors.leaves_open(error) or time.monotonic() > end:
                    raise _errors.from_call(error) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _info_seconds(self) -> float:
        begin = time.monotonic()
        self._daemon.Info(daemon_pb2.InfoRequest(), timeout=self.timeout)
        return time.monotonic() - begin

    def job(self, id: str) -> Job:
        """The job with this id, or with an id that begins or ends so."""
        if len(id) < 26:
            with _errors.translated():
                found = self._jobs.FindJobs(jobs_pb2.FindJobsRequest(id_part=id),
                                            timeout=self.timeout)
            if len(found.jobs) != 1:
                raise _errors.NotFound(
                    f"there is no job '{id}'" if not found.jobs else
                    f"'{id}' may mean several jobs: "
                    + ", ".join(job.id for job in found.jobs))
            id = found.jobs[0].id
        return Job(self, job_pb2.Job(id=id)).refresh()

    def jobs(self, *, states: Sequence[str] = (), owner: str = "",
             labels: Optional[Mapping[str, str]] = None, text: str = "",
             model: str = "", limit: Optional[int] = None) -> Iterator[Job]:
        """Yields jobs, newest first, page by page."""
        request = jobs_pb2.ListJobsRequest(
            owner=owner, labels=dict(labels or {}), text=text, model=model,
            states=[_state(name) for name in states],
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

    def queue(self) -> jobs_pb2.QueueResponse:
        """The running job and those that wait, in their order, and why."""
        with _errors.translated():
            return self._jobs.Queue(jobs_pb2.QueueRequest(),
                                    timeout=self.timeout)

    # --- Models.

    def models(self, name: str = "") -> List[models_pb2.Model]:
        """The models that jobs can name."""
        with _errors.translated():
            return list(self._models.ListModels(
                models_pb2.ListModelsRequest(name=name),
                timeout=self.timeout).models)

    def push_model(self, folder: Path, name: str = "") -> models_pb2.Model:
        """Sends a model's folder (safetensors, configuration, tokenizer) to the
        daemon, what it lacks of it; job.json names the model by `name`, which
        is the folder's unless given."""
        place = pathlib.Path(folder)
        inputs = _model_files(place)
        _uploads.send(self._artifacts, inputs)
        request = models_pb2.PushModelRequest(name=name or place.resolve().name)
        for one in inputs:
            request.files.add(path=one.path, sha256=one.sha256,
                              size_bytes=one.size)
        with _errors.translated():
            return self._models.Push(request).model

    def pull_model(self, id: str, revision: str = "", progress: Any = None
                   ) -> models_pb2.Model:
        """Has the daemon fetch a model from the hub, and waits. `progress` is
        called with each PullModelProgress. The pull goes on when this program
        ends."""
        model = None
        with _errors.translated():
            for message in self._models.Pull(
                    models_pb2.PullModelRequest(id=id, revision=revision)):
                if progress is not None:
                    progress(message)
                if message.HasField("model"):
                    model = message.model
        if model is None:
            raise _errors.Unreachable("the pull's stream ended early")
        return model

    def remove_model(self, name: str) -> int:
        """Returns the bytes freed."""
        with _errors.translated():
            return self._models.RemoveModel(
                models_pb2.RemoveModelRequest(name=name)).freed_bytes

    # --- The daemon.

    def info(self) -> daemon_pb2.InfoResponse:
        with _errors.translated():
            return self._daemon.Info(daemon_pb2.InfoRequest(you=True),
                                     timeout=self.timeout)

    def who_am_i(self) -> access_pb2.WhoAmIResponse:
        with _errors.translated():
            return self._access.WhoAmI(access_pb2.WhoAmIRequest(),
                                       timeout=self.timeout)


def _id(job: Union[str, Job]) -> str:
    return job.id if isinstance(job, Job) else job


def _state(name: str) -> Any:
    try:
        return job_pb2.JobState.Value("JOB_STATE_" + name.upper())
    except ValueError:
        known = [n[len("JOB_STATE_"):] for n in job_pb2.JobState.keys()[1:]]
        raise _errors.Invalid(f"states: there is no state '{name}': expected "
                              + ", ".join(known)) from None


def _read(spec: Spec) -> "tuple[Any, pathlib.Path]":
    if isinstance(spec, Mapping):
        return dict(spec), pathlib.Path()
    path = pathlib.Path(spec)
    try:
        return path.read_text(encoding="utf-8"), path.parent
    except FileNotFoundError:
        raise _errors.NotFound(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise _errors.Invalid(f"{path}: {error}") from None


def _parsed(text: str) -> Dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _errors.Invalid(f"job.json: {error}") from None
    if not isinstance(parsed, dict):
        raise _errors.Invalid("job.json: expected an object")
    return parsed


# What Transformers saves beside the weights (core/spec/model_files.cc).
_MODEL_FILES = frozenset((
    "config.json", "model.safetensors.index.json", "generation_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
    "tokenizer.model", "chat_template.jinja", "preprocessor_config.json"))
_TEMPLATES = "additional_chat_templates"


def _model_files(folder: pathlib.Path) -> List[Input]:
    if not (folder / "config.json").is_file():
        raise _errors.NotFound(f"{folder}: no model lies there: it has no "
                               "config.json")
    files = [file for file in folder.iterdir()
             if file.name in _MODEL_FILES
             or fnmatch.fnmatchcase(file.name, "model*.safetensors")]
    if (folder / _TEMPLATES).is_dir():
        files += (folder / _TEMPLATES).glob("[!.]*.jinja")
    return [of_file(file.relative_to(folder).as_posix(), file)
            for file in sorted(files) if file.is_file()]
