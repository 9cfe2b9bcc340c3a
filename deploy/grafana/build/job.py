# SPDX-License-Identifier: Apache-2.0
"""One job: its curves, and its Mac meanwhile."""

import frame
import looks
from grafana_foundation_sdk.builders import dashboard as build
from panels import lines, stat, states
from promql import beside_job, of_job, of_mac

BY_DEVICE = "{{device}}"


def head():
    info = of_job("mpsd_job_info")
    return [
        stat("Job", (info, "{{name}}"), names=True, width=6),
        stat("Owner", (info, "{{owner}}"), names=True, width=4),
        stat("Task", (info, "{{task}}"), names=True, width=4),
        stat("Model", (info, "{{model}}"), names=True, width=10),
        stat("Done", (f"{of_job('mpsd_job_step')} / "
                      f"{of_job('mpsd_job_planned_steps')}", ""),
             unit="percentunit", decimals=0),
        stat("Step", (of_job("mpsd_job_step"), ""), unit="none"),
        stat("Steps planned", (of_job("mpsd_job_planned_steps"), ""),
             unit="none"),
        stat("Epoch", (of_job("mpsd_job_epoch"), ""), unit="none", decimals=2),
        stat("ETA", (of_job("mpsd_job_eta_seconds"), ""), unit="s",
             about="Without evaluations and checkpoints."),
        stat("tok/s", (of_job("mpsd_job_tokens_per_second"), "")),
        stat("Since the last step",
             (f"time() - {of_job('mpsd_job_last_step_timestamp_seconds')}",
              ""), unit="s"),
        stat("Since the last checkpoint",
             ("time() - "
              + of_job("mpsd_job_last_checkpoint_timestamp_seconds"), ""),
             unit="s", about="What the job would lose if it stopped now."),
    ]


def curves():
    return [
        lines("Loss", (of_job("mpsd_job_loss"), "training"),
              (of_job("mpsd_job_eval_loss"), "evaluation"), least=None,
              height=9),
        lines("Metrics", (of_job("mpsd_job_eval_metric"), "{{metric}}"),
              (of_job("mpsd_job_step_metric"), "{{metric}}, training"),
              least=None, height=9),
        lines("Learning rate", (of_job("mpsd_job_learning_rate"), BY_DEVICE),
              width=8, unit="sci"),
        lines("Gradient norm", (of_job("mpsd_job_grad_norm"), BY_DEVICE),
              width=8),
        lines("tok/s", (of_job("mpsd_job_tokens_per_second"),
                                  BY_DEVICE), width=8),
        lines("Steps a minute",
              (f"60 * rate({of_job('mpsd_job_step')}[$__rate_interval])",
               BY_DEVICE), width=8),
        lines("Share of a step",
              (of_job("mpsd_job_data_wait_ratio"), "waits for data"),
              (of_job("mpsd_job_padding_ratio"), "tokens that are padding"),
              unit="percentunit", most=1, width=8),
        lines("Device in use",
              (of_job("mpsd_job_device_utilization_ratio"), BY_DEVICE),
              unit="percentunit", most=1, width=8),
    ]


def machine():
    def mac(metric):
        return beside_job(of_mac(metric))

    return [
        lines("Memory of the Mac's worker",
              (mac("mpsd_device_memory_current_allocated_bytes"), "tensors"),
              (mac("mpsd_device_memory_peak_allocated_bytes"),
               "tensors, peak"),
              (mac("mpsd_worker_footprint_bytes"), "process"), unit="bytes",
              height=9),
        states("Training is paused by", (mac("mpsd_paused"), "{{reason}}"),
               mapping=looks.BY_REASON, height=9),
        states("Heat", (mac("mpsd_host_thermal_level"), "thermal"),
               mapping=looks.THERMAL, width=8, height=4),
        states("Memory pressure",
               (mac("mpsd_host_memory_pressure_level"), "pressure"),
               mapping=looks.PRESSURE, width=8, height=4),
        states("Power", (mac("mpsd_host_on_battery"), "power"),
               mapping=looks.ON_BATTERY, width=8, height=4),
    ]


def marks():
    starts = of_job("mpsd_job_attempt_start_timestamp_seconds")
    checkpoints = of_job("mpsd_job_last_checkpoint_timestamp_seconds")
    return [
        frame.mark("attempt began", f"1000 * {starts}", "blue", "{{instance}}",
                   at_value=True),
        frame.mark("checkpoint", f"1000 * {checkpoints}", "green",
                   "{{device}}", at_value=True),
    ]


def make():
    made = frame.dashboard(
        frame.JOB, "mpsd: one job",
        "One job: its curves, and its Mac meanwhile.",
        [frame.macs(several=False), frame.jobs()],
        [(frame.FLEET, False), (frame.OVERVIEW, True)],
        [*frame.marks(), *marks()])
    for panel in head():
        made.with_panel(panel)
    for title, group in (("Curves", curves()), ("Its Mac", machine())):
        made.with_row(build.Row(title))
        for panel in group:
            made.with_panel(panel)
    return made
