# SPDX-License-Identifier: Apache-2.0
"""What hour.py makes of a Prometheus and a webhook: negative controls of its
judgement, without any program."""

import time
import types
import unittest

import hour as observed


class FakeMonitoring:
    def __init__(self):
        self.fired, self.late, self.told, self.errors = [], [], [], []
        self.webhook = types.SimpleNamespace(alerts=lambda: self.told)

    def history(self, expression, *_):
        return self.late if "scrape_duration" in expression else self.fired

    def rule_errors(self):
        return self.errors

    def query(self, _):
        return [(labels, 1.0) for labels, _ in self.fired]


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.hour = observed.Hour.__new__(observed.Hour)
        self.hour.monitoring = FakeMonitoring()
        self.hour.expected, self.hour.failures = [], []
        self.hour.begin = time.time() - 100
        self.mac = types.SimpleNamespace(name="studio")
        self.labels = {"alertname": "MpsdDown", "instance": "studio"}

    def expect(self):
        expected = self.hour.expect(self.mac, "MpsdDown")
        expected.begin, expected.end = expected.begin - 50, time.time() - 20
        return expected

    def fire(self, *ages, told=("firing", "resolved"), text="is away"):
        self.hour.monitoring.fired.append(
            (self.labels, [time.time() - age for age in ages]))
        self.hour.monitoring.told += [
            {"labels": self.labels, "status": status,
             "annotations": {"summary": text}} for status in told]

    def problems(self):
        return "\n".join(self.hour.judge())

    def test_clean(self):
        self.expect()
        self.fire(45, 30)
        self.assertEqual("", self.problems())

    def test_never_fired(self):
        self.expect()
        self.assertIn("MpsdDown on studio  never fired", self.problems())

    def test_fired_without_a_cause(self):
        self.fire(45)
        self.assertIn("fired without a cause", self.problems())

    def test_fired_too_early_and_too_late(self):
        self.expect()
        for age in (60, 10):
            self.hour.monitoring.fired.clear()
            self.fire(45, age)
            self.assertIn("fired without a cause", self.problems())

    def test_a_scrape_that_was_late_is_no_machine_that_is_down(self):
        self.fire(45, 44, told=())
        self.hour.monitoring.late = [({"instance": "studio"},
                                      [time.time() - 46])]
        self.assertEqual("", self.problems())

    def test_a_late_scrape_excuses_nothing_else(self):
        self.labels = {**self.labels, "alertname": "MpsdHot"}
        self.fire(45, told=())
        self.hour.monitoring.late = [({"instance": "studio"},
                                      [time.time() - 46])]
        self.assertIn("fired without a cause", self.problems())

    def test_a_late_scrape_of_another_machine(self):
        self.fire(45, told=())
        self.hour.monitoring.late = [({"instance": "mini"},
                                      [time.time() - 46])]
        self.assertIn("fired without a cause", self.problems())

    def test_another_machine(self):
        self.expect()
        self.labels = {**self.labels, "instance": "healthy"}
        self.fire(45)
        self.assertIn("fired without a cause", self.problems())
        self.assertIn("never fired", self.problems())

    def test_nobody_was_told(self):
        self.expect()
        self.fire(45, told=("firing",))
        self.assertIn("never told that MpsdDown on studio  is resolved",
                      self.problems())

    def test_what_may_fire_need_not(self):
        self.hour.allow(self.mac, "MpsdDown", 10)
        self.assertEqual("", self.problems())

    def test_text_that_a_template_tore(self):
        self.expect()
        self.fire(45, text="mpsd on <no value> is away")
        self.assertIn("an alert says: mpsd on <no value>", self.problems())

    def test_rule_that_fails(self):
        self.hour.monitoring.errors.append("MpsdDown: many-to-many matching")
        self.assertIn("many-to-many", self.problems())

    def test_scene_that_fails(self):
        def torn(_, machine):
            raise AssertionError(f"{machine.name} is torn")
        self.hour.run([(torn, self.mac)])
        self.assertIn("torn on studio: studio is torn", self.problems())


if __name__ == "__main__":
    unittest.main()
