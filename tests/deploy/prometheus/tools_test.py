# SPDX-License-Identifier: Apache-2.0
"""deploy/prometheus before the real promtool and amtool: rules, cases, both
configurations of Prometheus, Alertmanager's, and the text of notifications.

usage: tools_test.py promtool|amtool CHECKOUT; 77 where the tool is missing"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop()).resolve()
SKIPPED = 77  # as ctest is set to read it


class ToolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for part in ("deploy", "tests/deploy"):
            shutil.copytree(ROOT / part / "prometheus",
                            cls.folder / part / "prometheus")
        cls.rules = cls.folder / "deploy/prometheus"
        # The files that the operator puts next to the configuration.
        for name in ("mpsd_ca.pem", "mpsd_token"):
            (cls.rules / name).write_text("")

    def run_tool(self, *command):
        done = subprocess.run([str(word) for word in command], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def accepts(self, *command):
        status, said = self.run_tool(*command)
        self.assertEqual(0, status, said)
        return said


class PromtoolTest(ToolTest):
    def test_rules(self):
        self.accepts("promtool", "check", "rules", "--lint=all",
                     "--lint-fatal", self.rules / "mpsd_records.yml",
                     self.rules / "mpsd_alerts.yml")

    def test_cases(self):
        cases = sorted((self.folder / "tests/deploy/prometheus").glob(
            "*_cases.yml"))
        self.assertLess(3, len(cases))
        said = self.accepts("promtool", "test", "rules", *cases)
        self.assertEqual(len(cases), said.count("SUCCESS"), said)

    def test_a_case_that_is_wrong_is_noticed(self):
        case = self.folder / "tests/deploy/prometheus/wrong.yml"
        text = case.with_name("daemon_cases.yml").read_text()
        case.write_text(text.replace("eval_time: 8m", "eval_time: 6m"))
        self.addCleanup(case.unlink)
        status, said = self.run_tool("promtool", "test", "rules", case)
        self.assertNotEqual(0, status)
        self.assertIn("MpsdDown", said)

    def test_configurations(self):
        for name in ("prometheus.yml", "prometheus_remote.yml"):
            said = self.accepts("promtool", "check", "config",
                                self.rules / name)
            self.assertIn("2 rule files found", said)


class AmtoolTest(ToolTest):
    def test_configuration(self):
        said = self.accepts("amtool", "check-config",
                            self.rules / "alertmanager.yml")
        self.assertIn("1 templates", said)

    def test_who_hears_of_what(self):
        for severity, receiver in (("critical", "wake_somebody"),
                                   ("warning", "look_today"),
                                   ("info", "to_know")):
            said = self.accepts(
                "amtool", "config", "routes", "test", "--config.file",
                self.rules / "alertmanager.yml", "--verify.receivers",
                receiver, "alertname=MpsdX", f"severity={severity}")
            self.assertIn(receiver, said)

    def test_human_readable_text(self):
        data = self.folder / "data.json"
        data.write_text(json.dumps({
            "status": "firing",
            "groupLabels": {"alertname": "MpsdDown", "instance": "mac:9464"},
            "alerts": [{"status": "firing", "labels": {"severity": "critical"},
                        "annotations": {"summary": "mpsd is gone.",
                                        "runbook": "`mpsctl info` shows it.",
                                        "dashboard": "/d/mpsd-fleet"}}]}))
        said = self.accepts(
            "amtool", "template", "render",
            f"--template.glob={self.rules / 'mpsd.tmpl'}",
            f"--template.data={data}", "--template.text",
            '{{ template "mpsd.title" . }}|{{ template "mpsd.text" . }}')
        self.assertEqual(
            "FIRING: MpsdDown on mac:9464|critical, firing: mpsd is gone.\n"
            "Next: `mpsctl info` shows it.\n"
            "See: http://127.0.0.1:3000/d/mpsd-fleet", said.strip())


if __name__ == "__main__":
    tool = sys.argv.pop()
    if shutil.which(tool) is None:
        print(f"SKIPPED: no {tool}; deploy/setup.sh --tests installs it where "
              "a package has it")
        sys.exit(SKIPPED)
    sys.argv.append(f"{tool.capitalize()}Test")
    unittest.main()
