# SPDX-License-Identifier: Apache-2.0
"""One Mac: its queue, what keeps jobs waiting, training, machine and mpsd."""

import frame
import job_table
import looks
from grafana_foundation_sdk.builders import dashboard as build
from panels import (
    areas, bars, dashed, lines, stat, states)
from promql import count, of_mac, quantile, rate, reasons, some

HOUR = "1h"
CERTIFICATE_STEPS = ((None, "red"), (7 * 86400, "orange"),
                     (30 * 86400, "green"))


def now():
    return [
        stat("mpsd", (of_mac("up"), ""), mapping=looks.UP,
             steps=looks.GOOD_ABOVE_ZERO),
        stat("Running", (of_mac("mpsd_jobs", 'state="running"'), "")),
        stat("Queued", (of_mac("mpsd_jobs", 'state="queued"'), "")),
        stat("Oldest queued job",
             (of_mac("mpsd_queue_oldest_age_seconds"), ""), unit="s"),
        stat("Queue empty in", (of_mac("mpsd_queue_eta_seconds"), ""), unit="s",
             about="All running and queued jobs together, at the pace of each "
                   "one's last step; empty while one of them has none."),
        stat("Paused by", (reasons("mpsd_paused"), "{{reason}}"), names=True,
             steps=((None, "green"), (1, "orange")),
             about="What keeps running jobs from training now."),
        stat("Held by", (reasons("mpsd_held"), "{{reason}}"), names=True,
             steps=looks.BAD_ABOVE_ZERO,
             about="What keeps queued jobs from starting now."),
        stat("Version", (of_mac("mpsd_build_info"), "{{version}} {{commit}}"),
             names=True),
    ]


def queue():
    return [
        areas("Waiting, by priority", (of_mac("mpsd_queue_priority_jobs"),
                                       "{{priority}}"), width=6),
        areas("Waiting, by owner", (of_mac("mpsd_queue_owner_jobs"),
                                    "{{owner}}"), width=6),
        lines("Wait before a start",
              (quantile(0.5, "mpsd_job_queue_wait_seconds", window=HOUR),
               "p50"),
              (quantile(0.9, "mpsd_job_queue_wait_seconds", window=HOUR),
               "p90"), width=6, unit="s",
              about="Of the jobs that started within the last hour."),
        lines("Start to first step",
              (quantile(0.5, "mpsd_job_start_seconds", "device", window=HOUR),
               "p50, {{device}}"),
              (quantile(0.9, "mpsd_job_start_seconds", "device", window=HOUR),
               "p90, {{device}}"), width=6, unit="s",
              about="Loading and preparing, of the attempts that began within "
                    "the last hour."),
        bars("Jobs that ended", (count("mpsd_jobs_ended_total", "state"),
                                 "{{state}}"), width=8),
        bars("Ended attempts by fault",
             (some(count("mpsd_worker_exits_total", "class", "reason")),
              "{{class}}: {{reason}}"), width=8),
        bars("Retries",
             (some(count("mpsd_job_retries_total", "class", "reason")),
              "{{class}}: {{reason}}"), width=8),
    ]


def obstacles():
    return [
        states("Training is paused by", (of_mac("mpsd_paused"), "{{reason}}"),
               mapping=looks.BY_REASON, height=7),
        states("Starts are held by", (of_mac("mpsd_held"), "{{reason}}"),
               mapping=looks.BY_REASON, height=7),
        areas("Time lost to pauses",
              (rate("mpsd_paused_seconds_total", "reason"), "{{reason}}"),
              width=6, unit="percentunit", most=1),
        areas("Time lost to holds",
              (rate("mpsd_held_seconds_total", "reason"), "{{reason}}"),
              width=6, unit="percentunit", most=1),
        bars("Pauses that began", (count("mpsd_pauses_total", "reason"),
                                   "{{reason}}"), width=6),
        bars("Holds that began", (count("mpsd_holds_total", "reason"),
                                  "{{reason}}"), width=6),
    ]


def training():
    return [
        areas("tok/s", (rate("mpsd_tokens_total", "device"),
                                  "{{device}}")),
        areas("Where the time goes",
              (rate("mpsd_phase_seconds_total", "phase"), "{{phase}}"),
              unit="percentunit", most=1,
              about="The share of each phase in the time of the workers."),
        lines(
            "Time of a step",
            (quantile(0.5, "mpsd_step_seconds"), "p50"),
            (quantile(0.9, "mpsd_step_seconds"), "p90"),
            (quantile(0.99, "mpsd_step_seconds"), "p99"), unit="s",
            width=6),
        lines("Steps a second", (rate("mpsd_steps_total", "device"),
                                 "{{device}}"), width=6),
        lines("Time of a checkpoint",
              (quantile(0.5, "mpsd_checkpoint_seconds", window=HOUR), "p50"),
              (quantile(0.9, "mpsd_checkpoint_seconds", window=HOUR),
               "p90"), unit="s", width=6,
              about="Of the checkpoints of the last hour."),
        lines("Operators that ran on the CPU",
              (rate("mpsd_cpu_fallback_ops_total", "op"), "{{op}}"),
              unit="ops", width=6,
              about="Runs a second of operators that have no Metal kernel."),
    ]


def machine():
    return [
        dashed(lines(
            "Device memory",
            (of_mac("mpsd_device_memory_recommended_max_bytes"),
             "recommended at most"),
            (of_mac("mpsd_device_memory_driver_allocated_bytes"), "driver"),
            (of_mac("mpsd_device_memory_current_allocated_bytes"), "tensors"),
            (of_mac("mpsd_device_memory_peak_allocated_bytes"),
             "tensors, peak"), unit="bytes"), "A"),
        lines("Memory of the machine",
              (of_mac("mpsd_worker_footprint_bytes"), "worker"),
              (of_mac("mpsd_host_swap_used_bytes"), "swap"),
              (of_mac("mpsd_host_wired_limit_bytes"), "wired limit"),
              unit="bytes",
              about="A wired limit of 0 is the system's own policy."),
        states("Memory pressure",
               (of_mac("mpsd_host_memory_pressure_level"), "pressure"),
               mapping=looks.PRESSURE, width=6, height=4),
        states("Heat", (of_mac("mpsd_host_thermal_level"), "thermal"),
               mapping=looks.THERMAL, width=6, height=4),
        states("Power", (of_mac("mpsd_host_on_battery"), "power"),
               mapping=looks.ON_BATTERY, width=6, height=4),
        states("Low Power Mode", (of_mac("mpsd_host_low_power_mode"), "mode"),
               mapping=looks.LOW_POWER, width=6, height=4),
        lines("GPU in use", (of_mac("mpsd_host_gpu_utilization_ratio"),
                             "any process"), unit="percentunit", most=1,
              width=6),
        lines("Battery", (of_mac("mpsd_host_battery_ratio"), "charge"),
              unit="percentunit", most=1, width=6),
        lines("Since the last key or click",
              (of_mac("mpsd_host_user_idle_seconds"), "idle"), unit="s",
              width=6),
        lines("GPU resets", (of_mac("mpsd_host_gpu_resets"),
                             "since the machine started"), width=6),
    ]


def daemon():
    return [
        lines("Calls a second", (rate("mpsd_rpc_requests_total", "method"),
                                 "{{method}}"), unit="reqps", width=8),
        bars("Calls that failed",
             (some(count("mpsd_rpc_requests_total", "code", "method",
                         matchers=('code!="ok"',))), "{{code}}: {{method}}"),
             width=8),
        lines("Time of a call",
              (quantile(0.99, "mpsd_rpc_seconds", "method"), "{{method}}"),
              unit="s", width=8, about="p99 by method."),
        lines("Open streams", (of_mac("mpsd_rpc_open_streams"), "{{method}}"),
              width=6),
        lines("Time of a commit",
              (quantile(0.5, "mpsd_database_commit_seconds"), "p50"),
              (quantile(0.99, "mpsd_database_commit_seconds"), "p99"),
              unit="s", width=6),
        areas("State folder", (of_mac("mpsd_state_bytes"), "{{kind}}"),
              unit="bytes", width=6),
        dashed(lines("Budget of the state folder",
                     (of_mac("mpsd_state_budget_bytes"), "budget"),
                     (f"sum({of_mac('mpsd_state_bytes')})", "state folder"),
                     unit="bytes", width=6), "A"),
        bars("Removed by retention",
             (count("mpsd_collected_total", "kind"), "{{kind}}"), width=6),
        bars("Freed by retention",
             (count("mpsd_collected_bytes_total", "kind"), "{{kind}}"),
             unit="bytes", width=6),
        bars("Ended model pulls",
             (count("mpsd_model_pulls_total", "result"), "{{result}}"),
             width=6),
        lines("Model pulls in progress",
              (of_mac("mpsd_model_pulls_running"), "pulls"), width=6),
        lines("Models from the hub",
              (f"rate({of_mac('mpsd_model_pulled_bytes_total')}"
               "[$__rate_interval])", "bytes/s"),
              unit="Bps", width=6),
        dashed(lines("Disk of the state folder",
                     (of_mac("mpsd_state_disk_size_bytes"), "size"),
                     (of_mac("mpsd_state_disk_free_bytes"), "free"),
                     unit="bytes", width=6), "A"),
        lines("CPU of mpsd", (f"rate({of_mac('process_cpu_seconds_total')}"
                              "[$__rate_interval])", "cores"), width=6),
        lines("Memory of mpsd", (of_mac("process_resident_memory_bytes"),
                                 "resident"), unit="bytes", width=6),
        dashed(lines("Descriptors of mpsd",
                     (of_mac("process_max_fds"), "at most"),
                     (of_mac("process_open_fds"), "open"), width=6,
                     logarithmic=True, least=None), "A"),
        bars("Notifications", (count("mpsd_notifications_total", "result"),
                               "{{result}}"), width=6),
        stat("mpsd runs for",
             (f"time() - {of_mac('process_start_time_seconds')}", ""),
             unit="s", width=6),
        stat("Self-test passed",
             (f"time() - {of_mac('mpsd_selftest_timestamp_seconds')}",
              "{{device}}"), unit="s", width=6, about="The time since then."),
        stat("Certificate of the API ends in",
             ("mpsd_certificate_expiry_timestamp_seconds"
              '{instance=~"$instance"} - time()', ""), unit="s", width=6,
             steps=CERTIFICATE_STEPS),
        stat("Certificate of the metrics ends in",
             ("mpsd_metrics_certificate_expiry_timestamp_seconds"
              '{instance=~"$instance"} - time()', ""), unit="s", width=6,
             steps=CERTIFICATE_STEPS),
    ]


def make():
    made = frame.dashboard(
        frame.OVERVIEW, "mpsd: machine and queue",
        "One Mac: its queue, what keeps jobs from training, the machine.",
        [frame.macs(several=False)],
        [(frame.FLEET, False), (frame.JOB, True)], frame.marks())
    for panel in (*now(), job_table.make()):
        made.with_panel(panel)
    for title, group in (("Queue", queue()),
                         ("What keeps jobs waiting", obstacles()),
                         ("Training", training()), ("Machine", machine())):
        made.with_row(build.Row(title))
        for panel in group:
            made.with_panel(panel)
    row = build.Row("mpsd itself").collapsed(True)
    for panel in daemon():
        row.with_panel(panel)
    return made.with_row(row)
