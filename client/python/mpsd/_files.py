# SPDX-License-Identifier: Apache-2.0
"""The files of this machine that a job names, and how they reach the daemon:
each content once, small ones together, and a large one from where it was
interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import pathlib
import posixpath
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Union

from mpsd import _errors
from mpsd._errors import INVALID, NOT_FOUND, MpsdError
from mpsd.v1 import artifacts_pb2, artifacts_pb2_grpc

# The type of `data` of Client.submit for a path of the spec.
Data = Union[str, bytes, "os.PathLike[str]", Iterable[Mapping[str, Any]]]

_CHAT_FILES = ("chat_template.jinja", "tokenizer_config.json",
               "special_tokens_map.json", "added_tokens.json")
_PIECE = 1 << 20
_HASHES = 1000  # in one FindBlobs
_SMALL = 1 << 20  # bytes: larger files go alone
_PARCEL_FILES = 4000  # of one UploadBatch
_PARCEL_BYTES = 32 << 20
_TRIES = 6
_FIRST_WAIT = 0.25  # s; twice as long each time


@dataclasses.dataclass(frozen=True)
class Input:
    """A file that the job reads: its path in the spec, and its bytes."""

    path: str
    sha256: str
    size: int
    source: Union[bytes, pathlib.Path]

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        with (io.BytesIO(self.source) if isinstance(self.source, bytes)
              else open(self.source, "rb")) as file:
            file.seek(offset)
            while piece := file.read(_PIECE):
                yield piece


def of_bytes(path: str, data: bytes) -> Input:
    return Input(path, hashlib.sha256(data).hexdigest(), len(data), data)


def of_file(path: str, local: pathlib.Path) -> Input:
    digest, size = hashlib.sha256(), 0
    with open(local, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Input(path, digest.hexdigest(), size, local)


def _rows(path: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    lines: List[str] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise MpsdError(f"data['{path}']: row {number} is not a mapping: "
                            f"{type(row).__name__}", INVALID)
        lines.append(json.dumps(row, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode()


class Collector:
    """Collects the files that a spec names, each once."""

    def __init__(self, spec: Dict[str, Any], base: pathlib.Path,
                 data: Mapping[str, Data]):
        self._spec = spec
        self._base = base
        self._data = dict(data)
        self._images = spec.get("task") == "IMAGE_CLS"
        self._inputs: Dict[str, Input] = {}
        self._used: Set[str] = set()

    def run(self) -> List[Input]:
        dataset = self._part("dataset")
        for field in ("train", "eval", "predict"):
            paths = dataset.get(field) or []
            for path in [paths] if isinstance(paths, str) else paths:
                self._add(f"dataset.{field}", path)
        self._add("adapter", self._spec.get("adapter"))
        self._add("training.chat_template_path",
                  self._part("training").get("chat_template_path"))
        for path in sorted(set(self._data) - self._used):
            raise MpsdError(f"data['{path}']: the spec does not name this path",
                            INVALID)
        return list(self._inputs.values())

    def _part(self, name: str) -> Dict[str, Any]:
        part = self._spec.get(name)
        return part if isinstance(part, dict) else {}

    def _add(self, field: str, path: Any) -> None:
        if not isinstance(path, str) or not path or path.startswith("job:"):
            return
        given = self._data.get(path)
        if given is not None:
            self._used.add(path)
        if given is not None and not isinstance(given, (str, os.PathLike)):
            self._inputs[path] = of_bytes(path, given if isinstance(
                given, bytes) else _rows(path, given))
            return
        local = self._base / path if given is None else pathlib.Path(given)
        is_data = field.startswith("dataset.")
        if local.is_file():
            self._add_file(path, local)
            if is_data and self._images and local.suffix != ".safetensors":
                self._add_images(path, local)
        elif local.is_dir() and (self._images or not is_data or given):
            is_chat = field == "training.chat_template_path"
            for file in ([local / name for name in _CHAT_FILES] if is_chat
                         else sorted(local.rglob("*"))):
                name = file.relative_to(local).as_posix()
                if file.is_file() and "/." not in "/" + name:
                    self._add_file(f"{path.rstrip('/')}/{name}", file)
        elif given is not None or not pathlib.PurePath(path).is_absolute():
            raise MpsdError(
                f"{field} names '{path}', but there is no file {local}; "
                "relative paths are resolved from the folder of job.json, or "
                "from `base`", NOT_FOUND)

    def _add_file(self, path: str, local: pathlib.Path) -> None:
        if path not in self._inputs:
            self._inputs[path] = of_file(path, local)

    def _add_images(self, path: str, local: pathlib.Path) -> None:
        column = self._part("dataset").get("image_column", "image")
        with open(local, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                image = _image_of(line, column)
                if image is None or posixpath.isabs(image):
                    continue
                file = local.parent / image
                if not file.is_file():
                    raise MpsdError(f"{local}:{number}: there is no image "
                                    f"{file}", NOT_FOUND)
                self._add_file(posixpath.normpath(
                    posixpath.join(posixpath.dirname(path), image)), file)


def _image_of(line: str, column: str) -> Optional[str]:
    try:
        row = json.loads(line)
    except ValueError:
        return None  # the worker names the line
    image = row.get(column) if isinstance(row, dict) else None
    return image if isinstance(image, str) else None


Stub = artifacts_pb2_grpc.ArtifactServiceStub


def send(artifacts: Stub, inputs: Iterable[Input]) -> None:
    """Sends what the daemon lacks."""
    wanted: Dict[str, Input] = {i.sha256: i for i in inputs}
    hashes = list(wanted)
    for begin in range(0, len(hashes), _HASHES):
        with _errors.translated():
            found = artifacts.FindBlobs(artifacts_pb2.FindBlobsRequest(
                sha256=hashes[begin:begin + _HASHES]))
        for sha256 in found.present:
            wanted.pop(sha256, None)
    parcel: List[Input] = []
    for one in wanted.values():
        if one.size > _SMALL:
            _insist(lambda one=one: _send_large(artifacts, one))
            continue
        if len(parcel) == _PARCEL_FILES or (
                sum(i.size for i in parcel) + one.size > _PARCEL_BYTES):
            _insist(lambda: artifacts.UploadBatch(_batch(parcel)))
            parcel = []
        parcel.append(one)
    if parcel:
        _insist(lambda: artifacts.UploadBatch(_batch(parcel)))


def _insist(call: Any) -> None:
    """Calls again while the daemon is busy, and where a connection breaks."""
    wait = _FIRST_WAIT
    for left in reversed(range(_TRIES)):
        try:
            with _errors.translated():
                call()
            return
        except _errors.Unreachable:
            if left == 0:
                raise
        time.sleep(wait)
        wait *= 2


def _send_large(artifacts: Stub, one: Input) -> None:
    found = artifacts.FindBlobs(artifacts_pb2.FindBlobsRequest(
        sha256=[one.sha256]))
    if one.sha256 in found.present:
        return
    offset = sum(p.size_bytes for p in found.partial if p.sha256 == one.sha256)

    def parts() -> Iterator[artifacts_pb2.UploadRequest]:
        header = artifacts_pb2.UploadRequest.Header(
            sha256=one.sha256, size_bytes=one.size, offset_bytes=offset)
        yield artifacts_pb2.UploadRequest(header=header)
        for piece in one.pieces(offset):
            yield artifacts_pb2.UploadRequest(data=piece)

    artifacts.Upload(parts())


def _batch(parcel: List[Input]) -> Iterator[artifacts_pb2.UploadBatchRequest]:
    for one in parcel:
        message = artifacts_pb2.UploadBatchRequest()
        message.blobs.add(sha256=one.sha256, data=b"".join(one.pieces()))
        yield message
