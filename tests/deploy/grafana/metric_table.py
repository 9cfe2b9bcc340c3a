# SPDX-License-Identifier: Apache-2.0
"""server/http/names.h: every metric of mpsd with its kind and labels."""

import pathlib
import re
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROW = re.compile(r'\{"((?:mpsd|process)_\w+)",MetricKind::k(\w+),"([^"]*)"')
SUFFIXES = ("", "_bucket", "_sum", "_count")


class Metric(typing.NamedTuple):
    name: str
    histogram: bool
    labels: frozenset


def _labels(names):
    return frozenset(filter(None, names.replace(" ", "").split(",")))


def exported():
    """The metrics that names.h has, by name."""
    source = (ROOT / "server/http/names.h").read_text()
    packed = re.sub(r"\s+(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", "", source)
    rows = ROW.findall(packed)
    return {name: Metric(name, kind == "Histogram", _labels(labels))
            for name, kind, labels in rows}


def known():
    """What a dashboard may ask for, by the names of its series: a histogram has
    three."""
    series = {"up": Metric("up", False, frozenset())}
    for metric in exported().values():
        for suffix in SUFFIXES[1:] if metric.histogram else SUFFIXES[:1]:
            more = {"le"} if suffix == "_bucket" else set()
            series[metric.name + suffix] = metric._replace(
                labels=metric.labels | more)
    return series
