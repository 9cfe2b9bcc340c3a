# SPDX-License-Identifier: Apache-2.0
"""The events of a job, as values."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Dict, Optional, Union

from mpsd.v1 import job_pb2


@dataclasses.dataclass(frozen=True)
class _Event:
    sequence: int  # counts the job's events from 1
    time: datetime.datetime


@dataclasses.dataclass(frozen=True)
class StateChange(_Event):
    state: str  # "QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"
    message: str


@dataclasses.dataclass(frozen=True)
class Step(_Event):
    """A finished optimizer step."""

    step: int
    total_steps: int
    epoch: float
    loss: float  # nats a label token, or the task's loss for a row
    learning_rate: float
    grad_norm: float
    tokens: int  # this step's, without padding
    seconds: float
    tokens_per_second: float
    eta_seconds: float
    peak_memory_bytes: Optional[int]


@dataclasses.dataclass(frozen=True)
class Evaluation(_Event):
    step: int  # 0: before training
    loss: float
    metrics: Dict[str, float]


@dataclasses.dataclass(frozen=True)
class CheckpointWritten(_Event):
    step: int
    size_bytes: int


@dataclasses.dataclass(frozen=True)
class Note(_Event):
    text: str


@dataclasses.dataclass(frozen=True)
class JobWarning(_Event):
    text: str


Event = Union[StateChange, Step, Evaluation, CheckpointWritten, Note, JobWarning]


def to_datetime(time: Any) -> datetime.datetime:
    return time.ToDatetime().replace(tzinfo=datetime.timezone.utc)


def state_name(state: int) -> str:
    return job_pb2.JobState.Name(state)[len("JOB_STATE_"):]


def from_proto(event: job_pb2.JobEvent) -> Optional[Event]:
    """None for a kind of event that this package does not know."""
    at = (event.sequence, to_datetime(event.time))
    kind = event.WhichOneof("event")
    if kind == "state":
        return StateChange(*at, state_name(event.state.state),
                           event.state.message)
    if kind == "progress":
        p = event.progress
        memory = p.memory
        peak = (memory.peak_allocated_bytes
                if memory.HasField("peak_allocated_bytes") else None)
        return Step(*at, p.step, p.total_steps, p.epoch, p.loss,
                    p.learning_rate, p.grad_norm, p.tokens, p.step_seconds,
                    p.tokens_per_second, p.eta_seconds, peak)
    if kind == "evaluated":
        e = event.evaluated
        return Evaluation(*at, e.step, e.eval_loss, dict(e.metrics))
    if kind == "checkpoint":
        return CheckpointWritten(*at, event.checkpoint.step,
                                 event.checkpoint.size_bytes)
    if kind == "note":
        return Note(*at, event.note)
    if kind == "warning":
        return JobWarning(*at, event.warning)
    return None
