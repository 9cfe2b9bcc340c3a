# SPDX-License-Identifier: Apache-2.0
"""Several Macs, a row or a line each."""

import frame
import job_table
import looks
from grafana_foundation_sdk.builders import dashboard as build
from panels import Column, areas, bars, lines, stat, states, table
from promql import count, of_mac, rate, some

_LINK = {"title": "This Mac", "url": frame.OVERVIEW_OF_ROW}
MAC = "{{instance}}"
RUNNING, QUEUED = 'state="running"', 'state="queued"'


def each(metric, *matchers):
    return f"max by (instance) ({of_mac(metric, *matchers)})"


def free_share():
    return (f"{each('mpsd_state_disk_free_bytes')} / on (instance) "
            f"{each('mpsd_state_disk_size_bytes')}")


def now():
    return [
        stat("Machines up", (f"sum({of_mac('up')})", ""), width=4),
        stat("Machines down", (f"sum(1 - {of_mac('up')})", ""), width=4,
             steps=looks.BAD_ABOVE_ZERO),
        stat("Running",
             (f"sum({of_mac('mpsd_jobs', RUNNING)})", ""), width=4),
        stat("Queued",
             (f"sum({of_mac('mpsd_jobs', QUEUED)})", ""), width=4),
        stat("Machines paused", (f"sum({each('mpsd_paused')})", ""), width=4,
             steps=((None, "green"), (1, "orange"))),
        stat("Machines on hold", (f"sum({each('mpsd_held')})", ""), width=4,
             steps=looks.BAD_ABOVE_ZERO),
    ]


def macs():
    columns = [
        Column("Mac", label="instance", link=_LINK),
        Column("mpsd", each("up"), mapping=looks.UP, width=70),
        Column("Version", label="version", width=90),
        Column("Running", each("mpsd_jobs", RUNNING), width=80),
        Column("Queued", each("mpsd_jobs", QUEUED), width=80),
        Column("Queue empty in", each("mpsd_queue_eta_seconds"), unit="s",
               width=130),
        Column("tok/s", rate("mpsd_tokens_total", "instance"),
               width=130),
        Column("GPU in use", each("mpsd_host_gpu_utilization_ratio"),
               unit="percentunit", most=1, width=140),
        Column("Training", each("mpsd_paused"), mapping=looks.PAUSED,
               width=90),
        Column("Queue", each("mpsd_held"), mapping=looks.HELD, width=80),
        Column("Heat", each("mpsd_host_thermal_level"), mapping=looks.THERMAL,
               width=90),
        Column("Memory", each("mpsd_host_memory_pressure_level"),
               mapping=looks.PRESSURE, width=90),
        Column("Battery", each("mpsd_host_battery_ratio"), unit="percentunit",
               width=80),
        Column("Disk free", free_share(), unit="percentunit", width=90,
               steps=((None, "red"), (0.05, "orange"), (0.15, "green"))),
    ]
    source = f"max by (instance, version) ({of_mac('mpsd_build_info')})"
    return table("Macs", columns, source=source, height=8)


def courses():
    return [
        areas("tok/s", (rate("mpsd_tokens_total", "instance"), MAC)),
        areas("Queued jobs", (of_mac("mpsd_jobs", QUEUED), MAC)),
        states("mpsd answers", (of_mac("up"), MAC), mapping=looks.UP,
               height=7),
        states("Training is paused", (each("mpsd_paused"), MAC),
               mapping=looks.PAUSED, height=7),
        states("Heat", (each("mpsd_host_thermal_level"), MAC),
               mapping=looks.THERMAL, height=7),
        states("Starts are held", (each("mpsd_held"), MAC),
               mapping=looks.HELD, height=7),
        lines("GPU in use", (each("mpsd_host_gpu_utilization_ratio"), MAC),
              unit="percentunit", most=1, width=8),
        bars("Jobs that ended",
             (some(count("mpsd_jobs_ended_total", "instance", "state")),
              "{{instance}}: {{state}}"), width=8),
        bars("Failed attempts by fault",
             (some(count("mpsd_worker_exits_total", "instance", "class",
                         matchers=('class!="none"',))),
              "{{instance}}: {{class}}"), width=8),
        lines("Free share of the state folder's disk", (free_share(), MAC),
              unit="percentunit", most=1, width=8),
        lines("Oldest queued job", (of_mac("mpsd_queue_oldest_age_seconds"),
                                    MAC), unit="s", width=8),
        lines("Queue empty in", (of_mac("mpsd_queue_eta_seconds"), MAC),
              unit="s", width=8),
    ]


def make():
    made = frame.dashboard(
        frame.FLEET, "mpsd: all Macs", "Several Macs, a row or a line each.",
        [frame.macs(several=True)],
        [(frame.OVERVIEW, False), (frame.JOB, False)], frame.marks()[:1])
    for panel in (*now(), macs(), job_table.make(mac_shown=True)):
        made.with_panel(panel)
    made.with_row(build.Row("Over time"))
    for panel in courses():
        made.with_panel(panel)
    return made
