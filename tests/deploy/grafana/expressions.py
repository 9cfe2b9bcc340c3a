# SPDX-License-Identifier: Apache-2.0
"""The PromQL of a dashboard: its queries, and the selectors within them."""

import json
import re
import typing

from metric_table import ROOT

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
