# SPDX-License-Identifier: Apache-2.0
"""Negative controls of check_rules.py: the repository's own rules and cases,
with one thing spoilt."""

import pathlib
import shutil
import tempfile
import unittest

import check_rules
import promql

ROOT = pathlib.Path(__file__).resolve().parents[3]
ALERTS = f"{check_rules.RULES}/mpsd_alerts.yml"
RECORDS = f"{check_rules.RULES}/mpsd_records.yml"
DAEMON = f"{check_rules.CASES}/daemon_cases.yml"
COPIED = [check_rules.RULES, check_rules.CASES, check_rules.NAMES,
          "core/backend/traits.h",
          *sorted(path for path, _ in {v[2] for v in check_rules.VALUES})]
HELP = {"info": "", "show": "", "logs": "", "cancel": "", "retry": "",
        "delete": "", "checkpoints": "", "undrain": "",
        "submit": "  --priority N",
        "list": "  --state TEXT:{QUEUED,RUNNING,SUCCEEDED,FAILED,CANCELLED} …",
        "plot": "", "report": ""}


class CheckRulesTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for path in COPIED:
            source, copy = ROOT / path, self.root / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, dirs_exist_ok=True)
            else:
                shutil.copy(source, copy)

    def problems(self):
        return "\n".join(check_rules.check(self.root, HELP.get))

    def spoil(self, path, old, new):
        file = self.root / path
        text = file.read_text()
        self.assertIn(old, text)
        file.write_text(text.replace(old, new))

    def assert_finds(self, expected, path, old, new):
        self.spoil(path, old, new)
        self.assertIn(expected, self.problems())

    def test_clean(self):
        self.assertEqual("", self.problems())

    def test_name_that_is_not_exported(self):
        self.assert_finds("mpsd_hold is in neither", ALERTS,
                          'mpsd_held{reason="storage"}',
                          'mpsd_hold{reason="storage"}')

    def test_metric_that_mpsd_renames(self):
        self.assert_finds("mpsd_host_thermal_level is in neither",
                          check_rules.NAMES, '"mpsd_host_thermal_level"',
                          '"mpsd_host_heat_level"')

    def test_label_that_a_metric_lacks(self):
        self.assert_finds("mpsd_held has no label why", ALERTS,
                          'mpsd_held{reason="storage"}',
                          'mpsd_held{why="storage"}')

    def test_reason_that_does_not_exist(self):
        self.assert_finds('mpsd_held has no reason "gpu"', ALERTS,
                          'mpsd_held{reason="device"}',
                          'mpsd_held{reason="gpu"}')

    def test_reason_in_the_case_of_the_code(self):
        self.assert_finds('has no reason "NonFinite"', ALERTS,
                          'reason="non_finite"', 'reason="NonFinite"')

    def test_one_reason_among_several(self):
        self.assert_finds('has no reason "discs"', ALERTS,
                          'reason=~"disk|machine"', 'reason=~"discs|machine"')

    def test_reason_that_the_code_renames(self):
        self.assert_finds('mpsd_held has no reason "storage"',
                          "server/jobs/pause_gate.h", '"storage"', '"database"')

    def test_device_that_does_not_exist(self):
        self.assert_finds('has no device "gpu"', ALERTS, 'device!="cpu"',
                          'device!="gpu"')

    def test_grouping_by_what_is_not_there(self):
        self.assert_finds(
            "groups by owner", RECORDS,
            "max by (instance, job) (mpsd_worker_footprint_bytes)",
            "max by (instance, owner) (mpsd_worker_footprint_bytes)")

    def test_threshold_without_its_unit(self):
        self.assert_finds("900 has no unit", ALERTS, "> 900  # 15m\n",
                          "> 900\n")

    def test_threshold_with_another_duration(self):
        self.assert_finds("900 has no unit", ALERTS, "> 900  # 15m\n",
                          "> 900  # 10m\n")

    def test_verb_that_does_not_exist(self):
        self.assert_finds("mpsctl has no verb status", ALERTS, "`mpsctl info`",
                          "`mpsctl status`")

    def test_option_that_a_verb_lacks(self):
        self.assert_finds("list has no --only", ALERTS,
                          "`mpsctl list --state", "`mpsctl list --only")

    def test_value_that_an_option_lacks(self):
        self.assert_finds("--state has no BROKEN", ALERTS, "--state FAILED",
                          "--state BROKEN")

    def test_runbook_without_a_command(self):
        self.assert_finds("does not begin with a command", ALERTS,
                          "`mpsctl info` says whether it answers.",
                          "Look whether it answers.")

    def test_dashboard_that_does_not_exist(self):
        self.assert_finds("there is no dashboard mpsd-disk", ALERTS,
                          "dashboard: /d/mpsd-fleet",
                          "dashboard: /d/mpsd-disk")

    def test_variable_that_a_dashboard_lacks(self):
        folder = self.root / check_rules.DASHBOARDS
        folder.mkdir(parents=True)
        variables = '{"templating": {"list": [{"name": "instance"}]}, "uid": '
        for uid in ("mpsd-overview", "mpsd-fleet", "mpsd-job"):
            (folder / f"{uid}.json").write_text(f'{variables}"{uid}"}}')
        self.assertIn("mpsd-job has no variable job_id", self.problems())

    def test_severity_of_its_own(self):
        self.assert_finds("its severity is none of", ALERTS,
                          "severity: info", "severity: page")

    def test_another_label(self):
        self.assert_finds("other labels than its severity", ALERTS,
                          "          severity: info\n",
                          "          severity: info\n"
                          "          owner: '{{ $labels.owner }}'\n")

    def test_alert_without_a_test(self):
        self.assert_finds("MpsdGone: no test in which it fires", ALERTS,
                          "alert: MpsdDown", "alert: MpsdGone")

    def test_test_of_an_alert_that_is_gone(self):
        self.assert_finds("there is no alert MpsdDown", ALERTS,
                          "alert: MpsdDown", "alert: MpsdGone")

    def test_alert_that_is_never_seen_quiet(self):
        text = (self.root / DAEMON).read_text()
        begin = text.index("  - name: MpsdDown does not fire")
        end = text.index("  - name:", begin + 1)
        (self.root / DAEMON).write_text(text[:begin] + text[end:])
        self.assertIn("MpsdDown: no test in which it stays quiet",
                      self.problems())

    def test_alert_that_is_never_seen_to_resolve(self):
        self.assert_finds(
            "does not begin and end with MpsdDown silent", DAEMON,
            "      - alertname: MpsdDown\n        eval_time: 15m\n"
            "        exp_alerts: []\n", "")

    def test_label_without_a_bound(self):
        self.assert_finds("has the labels {'owner'}", DAEMON,
                          "{instance: 'mac:9464', job: mpsd, "
                          "severity: critical}",
                          "{instance: 'mac:9464', job: mpsd, owner: ada, "
                          "severity: critical}")


class PromqlTest(unittest.TestCase):
    def test_selectors(self):
        found = promql.parse(
            'sum by (a) (rate(x_total{r=~"p|q", s!="}"}[5m])) > 900  # 15m\n'
            'unless on (b, c) y == 1 and min_over_time(z:w[1h] offset 5m) > 2')
        self.assertEqual(
            [("x_total", [("r", "=~", "p|q"), ("s", "!=", "}")]), ("y", []),
             ("z:w", [])], found.selectors)
        self.assertEqual({"a", "b", "c"}, found.grouped)
        self.assertEqual([(900, "15m"), (1, ""), (2, "")], found.numbers)
        self.assertEqual(["[5m]", "[1h]"], found.ranges)

    def test_units(self):
        self.assertEqual(5400, promql.seconds("1h30m"))
        self.assertEqual(0.25, promql.seconds("250ms"))
        self.assertIsNone(promql.seconds("soon"))
        self.assertEqual(1 << 30, promql.size("1GiB"))
        self.assertIsNone(promql.size("1GB"))


if __name__ == "__main__":
    unittest.main()
