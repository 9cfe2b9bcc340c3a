# SPDX-License-Identifier: Apache-2.0
"""The events of a job, as values."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Dict, Optional, Union

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
    loss: float  # nats per label token, or the task's loss per row
    learning_rate: float
    grad_norm: float
    tokens: int  # this step's, without padding
    seconds: float
    tokens_per_second: float
    eta_seconds: float
    peak_memory_bytes: Optional[int]
    metrics: Dict[str, float]  # of jobs that learn preferences


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


def state_name(state: int) -> str:
    return job_pb2.JobState.Name(state)[len("JOB_STATE_"):]


def from_proto(event: job_pb2.JobEvent) -> Optional[Event]:
    """None for an unknown kind of event."""
    at = (event.sequence,
          event.time.ToDatetime().replace(tzinfo=datetime.timezone.utc))
    kind = event.WhichOneof("event")
    if kind == "state":
        s = event.state
        return StateChange(*at, state_name(s.state), s.message)
    if kind == "progress":
        p = event.progress
        known = p.memory.HasField("peak_allocated_bytes")
        peak = p.memory.peak_allocated_bytes if known else None
        return Step(*at, p.step, p.total_steps, p.epoch, p.loss,
                    p.learning_rate, p.grad_norm, p.tokens, p.step_seconds,
                    p.tokens_per_second, p.eta_seconds, peak,
                    dict(p.metrics))
    if kind == "evaluated":
        e = event.evaluated
        return Evaluation(*at, e.step, e.eval_loss, dict(e.metrics))
    if kind == "checkpoint":
        c = event.checkpoint
        return CheckpointWritten(*at, c.step, c.size_bytes)
    if kind == "note":
        return Note(*at, event.note)
    return JobWarning(*at, event.warning) if kind == "warning" else None
