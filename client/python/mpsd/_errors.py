# SPDX-License-Identifier: Apache-2.0
"""The exceptions."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

import grpc

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND


class MpsdError(Exception):
    """Every error of this package. `str()` is mpsd's own message, which names
    the field, what was expected and what to do; `code` is gRPC's status code,
    for programs."""

    def __init__(self, message: str, code: Optional[grpc.StatusCode] = None):
        super().__init__(message)
        self.code = code


class Unreachable(MpsdError, ConnectionError):
    """No daemon answers there, or it is overloaded."""


class JobFailed(MpsdError):
    """The job ended without a result. `job` is the job."""

    def __init__(self, message: str, job: object):
        super().__init__(message)
        self.job = job


def from_call(error: grpc.RpcError) -> MpsdError:
    """The error of this package for one of gRPC's."""
    code = error.code()
    away = code in (grpc.StatusCode.UNAVAILABLE,
                    grpc.StatusCode.DEADLINE_EXCEEDED)
    return (Unreachable if away else MpsdError)(
        error.details() or str(code), code)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise from_call(error) from None
