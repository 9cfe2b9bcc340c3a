# SPDX-License-Identifier: Apache-2.0
"""Sends files to the daemon: each content once, small ones together, and a
large one from where it broke off."""

from __future__ import annotations

import time
from typing import Dict, Iterable, Iterator, List

from mpsd import _errors
from mpsd._inputs import Input
from mpsd.v1 import artifacts_pb2, artifacts_pb2_grpc

_HASHES = 1000  # in one FindBlobs
_SMALL = 1 << 20  # bytes: larger files go alone
_PARCEL_FILES = 4000  # of one UploadBatch
_PARCEL_BYTES = 32 << 20
_MESSAGE_FILES = 1000
_MESSAGE_BYTES = 2 << 20
_TRIES = 6
_FIRST_WAIT = 0.25  # s; twice as long each time


def send(artifacts: artifacts_pb2_grpc.ArtifactServiceStub,
         inputs: Iterable[Input]) -> None:
    wanted: Dict[str, Input] = {i.sha256: i for i in inputs}
    _drop_present(artifacts, wanted)
    parcel: List[Input] = []
    size = 0
    for one in wanted.values():
        if one.size > _SMALL:
            _insist(lambda one=one: _send_large(artifacts, one))
            continue
        if len(parcel) == _PARCEL_FILES or size + one.size > _PARCEL_BYTES:
            _insist(lambda: artifacts.UploadBatch(_batches(parcel)))
            parcel, size = [], 0
        parcel.append(one)
        size += one.size
    if parcel:
        _insist(lambda: artifacts.UploadBatch(_batches(parcel)))


def _insist(call) -> None:
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


def _find(artifacts, hashes: List[str]) -> artifacts_pb2.FindBlobsResponse:
    return artifacts.FindBlobs(artifacts_pb2.FindBlobsRequest(sha256=hashes))


def _drop_present(artifacts, wanted: Dict[str, Input]) -> None:
    hashes = list(wanted)
    for begin in range(0, len(hashes), _HASHES):
        with _errors.translated():
            found = _find(artifacts, hashes[begin:begin + _HASHES])
        for sha256 in found.present:
            wanted.pop(sha256, None)


def _send_large(artifacts, one: Input) -> None:
    found = _find(artifacts, [one.sha256])
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


def _batches(parcel: List[Input]) -> Iterator[artifacts_pb2.UploadBatchRequest]:
    batch, size = artifacts_pb2.UploadBatchRequest(), 0
    for one in parcel:
        if len(batch.blobs) == _MESSAGE_FILES or size + one.size > _MESSAGE_BYTES:
            yield batch
            batch, size = artifacts_pb2.UploadBatchRequest(), 0
        batch.blobs.add(sha256=one.sha256, data=one.read())
        size += one.size
    if batch.blobs:
        yield batch


