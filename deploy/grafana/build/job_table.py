# SPDX-License-Identifier: Apache-2.0
"""A table of jobs by their names; each name leads to the job's dashboard."""

import frame
from panels import Column, table
from promql import by_job, of_mac

_LINK = {"title": "This job", "url": frame.JOB_OF_ROW}


def make(mac_shown=False):
    names = (f"max by (instance, job_id, name, owner, task, model) "
             f"({of_mac('mpsd_job_info')})")
    done = (f"{by_job('mpsd_job_step')} / on (instance, job_id) "
            f"{by_job('mpsd_job_planned_steps')}")
    columns = [
        Column("Job", label="name", link=_LINK),
        Column("Owner", label="owner"),
        Column("Task", label="task", width=110),
        Column("Model", label="model"),
        Column("Done", done, unit="percentunit", most=1, width=160),
        Column("Step", by_job("mpsd_job_step"), width=80),
        Column("Loss", by_job("mpsd_job_loss"), width=90),
        Column("Eval loss", by_job("mpsd_job_eval_loss"), width=90),
        Column("tok/s", by_job("mpsd_job_tokens_per_second"),
               width=140),
        Column("ETA", by_job("mpsd_job_eta_seconds"), unit="s", width=100),
    ]
    if mac_shown:
        columns.insert(0, Column("Mac", label="instance"))
    return table("Running and recently ended jobs", columns,
                 hidden=("instance", "job_id")[mac_shown:], source=names,
                 height=7)
