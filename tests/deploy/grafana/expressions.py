# SPDX-License-Identifier: Apache-2.0
"""The PromQL of a dashboard: its queries, and the selectors within them; and
server/http/names.h: every metric of mpsd with its kind and labels."""

import json
import pathlib
import re
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROW = re.compile(r'\{"((?:mpsd|process)_\w+)",MetricKind::k(\w+),"([^"]*)"')
SUFFIXES = ("", "_bucket", "_sum", "_count")
FOLDER = ROOT / "deploy/grafana"
NAMES = ("overview", "job", "fleet")
SELECTOR = re.compile(r"\b((?:mpsd|process)_\w+|up\b)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
GROUPING = re.compile(r"\b(?:by|on|group_left|without)\s*\(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")


class Query(typing.NamedTuple):
    place: str  # "job: Loss, A"
    expression: str
    legend: str
    table: bool


def dashboard(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def panels(tree):
    """Every panel, those of folded rows too; no rows."""
    for panel in tree["panels"]:
        if panel["type"] != "row":
            yield panel
        yield from panel.get("panels", [])


def queries(name):
    """Those of panels and annotations."""
    tree = dashboard(name)
    for panel in panels(tree):
        for target in panel["targets"]:
            yield Query(f"{name}: {panel['title']}, {target['refId']}",
                        target["expr"], target.get("legendFormat", ""),
                        target.get("format") == "table")
    for annotation in tree["annotations"]["list"]:
        yield Query(f"{name}: annotation {annotation['name']}",
                    annotation["expr"], annotation["textFormat"], False)


def variable_queries(name):
    """Pairs of a variable's name and its query."""
    for variable in dashboard(name)["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def selectors(expression):
    """Pairs of a metric and its matchers, each (label, operator, value)."""
    return [(metric, MATCHER.findall(matchers))
            for metric, matchers in SELECTOR.findall(_without_lists(expression))]


def metrics(expression):
    return {metric for metric, _ in selectors(expression)}


def grouping_labels(expression):
    """The labels that the expression groups, joins or matches by."""
    return {label.strip() for group in GROUPING.findall(expression)
            for label in group.split(",") if label.strip()}


def _without_lists(expression):
    return GROUPING.sub(" ", expression)


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
