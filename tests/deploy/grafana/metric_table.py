# SPDX-License-Identifier: Apache-2.0
"""server/prometheus/names.h: every metric of mpsd with its kind and labels."""

import pathlib
import re
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROW = re.compile(r'\{"((?:mpsd|process)_\w+)",MetricKind::k(\w+),"([^"]*)"')
SUFFIXES = ("", "_bucket", "_sum", "_count")

# Panels that stand before their metrics do: name to labels. A test of queries
# lets these be absent from a scrape.
WAITING = {
    "mpsd_held_seconds_total": "reason",
    "mpsd_holds_total": "reason",
    "mpsd_job_attempt_start_timestamp_seconds": "job_id",
    "mpsd_job_retries_total": "class, reason",
    "mpsd_job_start_seconds": "device",
    "mpsd_job_tokens_per_second": "device, job_id",
    "mpsd_metrics_certificate_expiry_timestamp_seconds": "",
    "mpsd_paused_seconds_total": "reason",
    "mpsd_phase_seconds_total": "device, phase",
    "mpsd_queue_eta_seconds": "",
    "mpsd_worker_exits_total": "class, reason",
}
WAITING_HISTOGRAMS = {"mpsd_job_start_seconds"}


class Metric(typing.NamedTuple):
    name: str
    histogram: bool
    labels: frozenset


def _labels(names):
    return frozenset(filter(None, names.replace(" ", "").split(",")))


def exported():
    """The metrics that names.h has, by name."""
    source = (ROOT / "server/prometheus/names.h").read_text()
    packed = re.sub(r"\s+(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", "", source)
    rows = ROW.findall(packed)
    return {name: Metric(name, kind == "Histogram", _labels(labels))
            for name, kind, labels in rows}


def known():
    """The metrics that a dashboard may ask for, by the names of their series:
    a histogram has three."""
    metrics = exported()
    for name, labels in WAITING.items():
        metrics[name] = Metric(
            name, name in WAITING_HISTOGRAMS, _labels(labels))
    series = {"up": Metric("up", False, frozenset())}
    for metric in metrics.values():
        for suffix in SUFFIXES[1:] if metric.histogram else SUFFIXES[:1]:
            more = {"le"} if suffix == "_bucket" else set()
            series[metric.name + suffix] = metric._replace(
                labels=metric.labels | more)
    return series
