# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes models on a shared Mac from Python.

    import mpsd

    client = mpsd.Client()                    # as mpsctl finds its daemon
    job = client.submit("job.json")           # uploads what the daemon lacks
    for event in job.watch():
        print(event)
    adapter = job.result("adapter/")          # the PEFT folder

Nothing here needs torch, a GPU or a compiler.
"""

from mpsd._address import Address, find_daemon
from mpsd._errors import (Aborted, AlreadyExists, Busy, Conflict, DataLoss,
                          Invalid, JobFailed, LimitReached, MpsdError, NotFound,
                          NotSignedIn, Refused, Unreachable, Unsupported)
from mpsd._events import (CheckpointWritten, Evaluation, Event, JobWarning,
                          Note, StateChange, Step)
from mpsd.client import Client
from mpsd.job import Job

__version__ = "@VERSION@"

__all__ = [
    "Aborted", "Address", "AlreadyExists", "Busy", "CheckpointWritten",
    "Client", "Conflict", "DataLoss", "Evaluation", "Event", "Invalid", "Job",
    "JobFailed", "JobWarning", "LimitReached", "MpsdError", "NotFound",
    "NotSignedIn", "Note", "Refused", "StateChange", "Step", "Unreachable",
    "Unsupported", "find_daemon",
]
