# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes models on a shared Mac from Python.

    import mpsd

    client = mpsd.Client("studio.local:7433", token=…, ca="ca.crt")
    job = client.submit("job.json")           # uploads what the daemon lacks
    for event in job.watch():
        print(event)
    adapter = job.download("adapter/")        # the PEFT folder

The package needs no torch, GPU or compiler.
"""

from mpsd._errors import JobFailed, MpsdError, Unreachable
from mpsd._events import (CheckpointWritten, Evaluation, Event, JobWarning,
                          Note, StateChange, Step)
from mpsd.client import Client
from mpsd.job import Job

__version__ = "@VERSION@"

__all__ = [
    "CheckpointWritten", "Client", "Evaluation", "Event", "Job", "JobFailed",
    "JobWarning", "MpsdError", "Note", "StateChange", "Step", "Unreachable",
]
