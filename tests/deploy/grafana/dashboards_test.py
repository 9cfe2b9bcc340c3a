# SPDX-License-Identifier: Apache-2.0
"""The dashboards as they are checked in: they are what the builder writes, ask
only for metrics and labels that mpsd has, leave none out unsaid, and load into
any Grafana."""

import re
import subprocess
import sys
import tempfile
import pathlib
import unittest

import expressions

MAKE = expressions.FOLDER / "build/make.py"

# A metric that is in no panel, and why.
LEFT_OUT = {}


class DashboardsTest(unittest.TestCase):
    def setUp(self):
        self.table = expressions.known()
        self.asked = {
            name: [query.expression for query in expressions.queries(name)]
            + [query for _, query in expressions.variable_queries(name)]
            for name in expressions.NAMES}

    def test_they_are_what_the_builder_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", MAKE, folder], check=True)
            for name in expressions.NAMES:
                made = (pathlib.Path(folder) / f"{name}.json").read_text()
                self.assertEqual(
                    made, (expressions.FOLDER / f"{name}.json").read_text(),
                    f"run {MAKE}")

    def test_they_ask_for_metrics_and_labels_that_mpsd_has(self):
        always = {"instance", "job"}
        for name, queries in self.asked.items():
            for query in queries:
                for metric, matchers in expressions.selectors(query):
                    with self.subTest(name, query=query):
                        self.assertIn(metric, self.table)
                        labels = {label for label, _, _ in matchers}
                        self.assertLessEqual(
                            labels, self.table[metric].labels | always)
                found = set().union(*(self.table[m].labels for m
                                      in expressions.metrics(query)), always)
                with self.subTest(name, query=query):
                    self.assertLessEqual(expressions.grouping_labels(query)
                                         - {"job_id"}, found)

    def test_each_metric_is_shown(self):
        shown = {self.table[metric].name for queries in self.asked.values()
                 for query in queries for metric in expressions.metrics(query)}
        for metric in self.table.values():
            with self.subTest(metric.name):
                self.assertNotEqual(metric.name in shown,
                                    metric.name in LEFT_OUT)

    def test_each_series_query_is_of_chosen_macs(self):
        for name in expressions.NAMES:
            for query in expressions.queries(name):
                chosen = [matchers for _, matchers
                          in expressions.selectors(query.expression)
                          if ("instance", "=~", "$instance") in matchers]
                with self.subTest(query.place):
                    self.assertTrue(chosen)

    def test_nothing_names_an_installation(self):
        for name in expressions.NAMES:
            tree = expressions.dashboard(name)
            self.assertEqual(f"mpsd-{name}", tree["uid"])
            for absent in ("id", "__inputs", "__requires", "iteration"):
                self.assertNotIn(absent, tree)
            self.assertEqual(
                {'"${datasource}"'},
                set(re.findall(r'"uid": ("\$[^"]*"|"(?!mpsd-)[^"]*")',
                               (expressions.FOLDER / f"{name}.json")
                               .read_text())))

    def test_links_lead_to_dashboards_and_variables_that_exist(self):
        variables = {f"mpsd-{name}": {
            variable["name"] for variable
            in expressions.dashboard(name)["templating"]["list"]}
            for name in expressions.NAMES}
        for name in expressions.NAMES:
            text = (expressions.FOLDER / f"{name}.json").read_text()
            links = re.findall(r'"url": "/d/([\w-]+)([^"]*)"', text)
            self.assertGreaterEqual(len(links), 2)
            for uid, rest in links:
                self.assertIn(uid, variables)
                for variable in re.findall(r"var-(\w+)=", rest):
                    self.assertIn(variable, variables[uid])

    def test_colours_are_chosen_and_ratios_have_a_fixed_axis(self):
        for name in expressions.NAMES:
            for panel in expressions.panels(expressions.dashboard(name)):
                defaults = panel["fieldConfig"]["defaults"]
                steps = defaults["thresholds"]["steps"]
                with self.subTest(name, panel=panel["title"]):
                    self.assertIsNone(steps[0]["value"])
                    self.assertNotIn(80, [step["value"] for step in steps])
                    if panel["type"] == "state-timeline":
                        self.assertTrue(defaults["mappings"])
                    if (panel["type"] == "timeseries"
                            and defaults["unit"] == "percentunit"):
                        self.assertEqual((0, 1),
                                         (defaults["min"], defaults["max"]))

    def test_panels_do_not_overlap_and_are_numbered(self):
        for name in expressions.NAMES:
            taken = set()
            tree = expressions.dashboard(name)
            for panel in expressions.panels(tree):
                place = panel["gridPos"]
                cells = {(place["x"] + x, place["y"] + y)
                         for x in range(place["w"]) for y in range(place["h"])}
                with self.subTest(name, panel=panel["title"]):
                    self.assertFalse(cells & taken)
                    self.assertLessEqual(place["x"] + place["w"], 24)
                taken |= cells
            rows = [panel for panel in tree["panels"]
                    if panel["type"] == "row"]
            numbers = [panel["id"] for panel
                       in (*rows, *expressions.panels(tree))]
            self.assertEqual(sorted(numbers), list(range(1, len(numbers) + 1)))
