# SPDX-License-Identifier: Apache-2.0
"""The queries of the dashboards, the selectors within them, and the series that
mpsd exports."""

import json
import pathlib
import re
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/deploy/prometheus"))
import promql  # noqa: E402  (the path comes first)

FOLDER = ROOT / "deploy/grafana"
NAMES = ("overview", "job", "fleet")
METRIC = re.compile(r"(mpsd|process)_\w+|up")
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
    return [(name, matchers) for name, matchers
            in promql.parse(expression).selectors if METRIC.fullmatch(name)]


def metrics(expression):
    return {metric for metric, _ in selectors(expression)}


def grouping_labels(expression):
    """The labels that the expression groups, joins or matches by."""
    return promql.parse(expression).grouped


def known():
    """What a dashboard may ask for: {name of a series: promql.Series}."""
    return {"up": promql.Series("up", set()), **promql.exported(ROOT)}
