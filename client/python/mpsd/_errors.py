# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, a class for each thing that a program decides by."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

import grpc


class MpsdError(Exception):
    """Every error of this package. `str()` is mpsd's own message, which names
    the field, what was expected and what to do."""

    def __init__(self, message: str, code: Optional[grpc.StatusCode] = None):
        super().__init__(message)
        self.code = code


class Invalid(MpsdError, ValueError):
    """A field of the job or of the request: which one, and what was expected."""


class NotFound(MpsdError, LookupError):
    """No such job, model or file."""


class AlreadyExists(MpsdError):
    """The idempotency key was used for another job."""


class Conflict(MpsdError):
    """Not in this state: a file that is not there, a job that has not ended."""


class LimitReached(MpsdError):
    """A limit of the user, or the daemon's disk; the message has the figure."""


class Refused(MpsdError, PermissionError):
    """The caller's role does not allow it; the message names the one that does."""


class NotSignedIn(MpsdError, PermissionError):
    """No token, or one that the daemon does not know: `mpsctl login`."""


class Unreachable(MpsdError, ConnectionError):
    """No daemon answers there."""


class Busy(Unreachable):
    """The daemon has too much to do: try again."""


class Aborted(MpsdError):
    """Something changed meanwhile: ask again."""


class DataLoss(MpsdError):
    """Bytes that arrived are not those that were sent."""


class Unsupported(MpsdError, NotImplementedError):
    """This daemon is older than this package."""


class JobFailed(MpsdError):
    """The job ended without a result. `job` is the job."""

    def __init__(self, message: str, job: object):
        super().__init__(message)
        self.job = job


_CLASSES = {
    grpc.StatusCode.INVALID_ARGUMENT: Invalid,
    grpc.StatusCode.OUT_OF_RANGE: Invalid,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitReached,
    grpc.StatusCode.PERMISSION_DENIED: Refused,
    grpc.StatusCode.UNAUTHENTICATED: NotSignedIn,
    grpc.StatusCode.UNAVAILABLE: Unreachable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unreachable,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.UNIMPLEMENTED: Unsupported,
}


def from_call(error: grpc.RpcError) -> MpsdError:
    """The error of this package for one of gRPC's."""
    code = error.code()
    message = error.details() or str(code)
    if code == grpc.StatusCode.UNIMPLEMENTED:
        message = f"this mpsd does not know what was asked for ({message})"
    if is_busy(error):
        return Busy(message, code)
    return _CLASSES.get(code, MpsdError)(message, code)


def is_busy(error: grpc.RpcError) -> bool:
    """Whether the daemon itself answered that it has too much to do; gRPC's
    own UNAVAILABLE, for a daemon that is away, has another text."""
    return (error.code() == grpc.StatusCode.UNAVAILABLE
            and "try again" in (error.details() or ""))


def leaves_open(error: grpc.RpcError) -> bool:
    """Whether the daemon may have done what the call asked for."""
    return error.code() in (
        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED) or error.details() == "Stream removed"


@contextlib.contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise from_call(error) from None
