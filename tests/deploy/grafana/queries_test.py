# SPDX-License-Identifier: Apache-2.0
"""Every query of the dashboards, asked of a real Prometheus that scrapes the
real mpsd: it is taken, and has data where mpsd has."""

import re
import shutil
import unittest

import expressions
import world

# What the world does not show, and why.
ABSENT = {
    "mpsd_certificate_expiry_timestamp_seconds": "the API has no port here",
    "mpsd_metrics_certificate_expiry_timestamp_seconds":
        "the metrics address has no certificate here",
}


class QueriesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("prometheus") is None:
            raise unittest.SkipTest(
                "no prometheus: deploy/setup.sh --tests installs it")
        cls.world = world.World()
        cls.addClassCleanup(cls.world.close)
        cls.table = expressions.known()
        match = {"match[]": '{job="mpsd"}', "start": cls.world.begun,
                 "end": cls.world.ended}
        cls.scraped = {entry["__name__"] for entry
                       in cls.world.prometheus.ask("series", **match)}
        cls.queries = [query for name in expressions.NAMES
                       for query in expressions.queries(name)]

    def may_be_empty(self, expression):
        """Whether a metric is not in the scrape, with good reason."""
        missing = expressions.metrics(expression) - self.scraped
        plain = {self.table[series].name for series in missing}
        return missing and plain <= set(ABSENT)

    def test_each_query_has_data(self):
        for query in self.queries:
            with self.subTest(query.place):
                found = self.world.series(query.expression)
                if not self.may_be_empty(query.expression):
                    self.assertTrue(found, query.expression)

    def test_a_legend_has_its_labels(self):
        for query in self.queries:
            wanted = set(expressions.LEGEND.findall(query.legend))
            for labels in self.world.series(query.expression):
                with self.subTest(query.place):
                    self.assertLessEqual(wanted, set(labels))

    def test_each_selector_has_series(self):
        """And each value that a selector leaves out."""
        for query in self.queries:
            for metric, matchers in expressions.selectors(query.expression):
                fixed = [f'{label}{operator}"{value}"' for label, operator,
                         value in matchers if "$" not in value]
                selectors = {f"{metric}{{{', '.join(fixed)}}}"} | {
                    f"{metric}{{{matcher.replace('!', '')}}}"
                    for matcher in fixed}
                for selector in selectors:
                    with self.subTest(query.place, selector=selector):
                        if not self.may_be_empty(selector):
                            self.assertTrue(self.world.series(selector),
                                            selector)

    def test_a_single_mac_can_be_chosen(self):
        expression = 'mpsd_jobs{instance=~"$instance", state="queued"}'
        for instance in self.world.instances:
            found = self.world.series(expression, instance=instance)
            self.assertEqual([instance], [one["instance"] for one in found])

    def test_every_metric_is_scraped(self):
        for series in self.table:
            name = self.table[series].name
            if name not in ABSENT:
                with self.subTest(series):
                    self.assertIn(series, self.scraped)

    def test_the_macs(self):
        for name in expressions.NAMES:
            query = dict(expressions.variable_queries(name))["instance"]
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)",
                                         query).groups()
            values = self.world.prometheus.ask(
                f"label/{label}/values", **{"match[]": metric})
            self.assertEqual(sorted(self.world.instances), values)

    def test_the_jobs_by_name_the_last_that_stepped_first(self):
        query = dict(expressions.variable_queries("job"))["job_id"]
        expression = re.fullmatch(r"query_result\((.+)\)", query).group(1)
        data = self.world.prometheus.ask(
            "query", query=self.world.filled_in(expression),
            time=self.world.ended)
        variable, = (v for v in expressions.dashboard("job")["templating"]
                     ["list"] if v["name"] == "job_id")
        pattern = variable["regex"].strip("/").replace("(?<", "(?P<")
        options = []
        for entry in data["result"]:
            # As Grafana writes a series.
            labels = ",".join(f'{name}="{value}"' for name, value
                              in entry["metric"].items())
            match = re.search(pattern, f"{{{labels}}} {entry['value'][1]} 0")
            options.append((match["value"], match["text"]))
        names = [text.split(" · ")[0] for _, text in options]
        self.assertEqual(["fake:mac", "fake:mac", "fake:crash-segv"], names)
        self.assertEqual(self.world.job, options[1][0])
        for value, text in options:
            self.assertEqual(value[-6:], text.split(" · ")[1])

    def test_a_query_that_is_wrong_is_found(self):
        with self.assertRaisesRegex(AssertionError, "parse error"):
            self.world.series("sum by (state) mpsd_jobs")
        self.assertEqual([], self.world.series('mpsd_jobs{state="Running"}'))
        self.assertFalse(self.may_be_empty('mpsd_jobs{state="Running"}'))
