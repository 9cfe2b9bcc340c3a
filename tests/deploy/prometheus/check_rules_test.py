# SPDX-License-Identifier: Apache-2.0
"""Negative controls of check_rules.py: the repository's own rules and cases,
with one thing spoilt."""

import pathlib
import shutil
import tempfile
import unittest

import check_rules

ROOT = pathlib.Path(__file__).resolve().parents[3]
ALERTS = f"{check_rules.RULES}/mpsd_alerts.yml"
COPIED = [check_rules.RULES, check_rules.CASES, check_rules.NAMES,
          "core/host/traits.h",
          *sorted(path for path, _ in {v[2] for v in check_rules.VALUES})]
HELP = {"info": "", "show": "", "logs": "", "cancel": "", "retry": "",
        "delete": "", "download": "  --checkpoints", "admin undrain": "",
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
