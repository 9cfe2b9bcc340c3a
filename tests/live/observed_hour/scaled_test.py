# SPDX-License-Identifier: Apache-2.0
"""scaled.py divides every duration of deploy/prometheus and changes nothing
else."""

import pathlib
import re
import shutil
import tempfile
import unittest

import scaled
import yaml

RULES = pathlib.Path(__file__).resolve().parents[3] / "deploy/prometheus"


class ScaledTest(unittest.TestCase):
    def test_expression(self):
        self.assertEqual(
            "avg_over_time(x[15000ms]) > 15  ",
            scaled.expression("avg_over_time(x[15m]) > 900  # 15m", 60))
        self.assertEqual("x[60000ms:500ms] offset 1000ms",
                         scaled.expression("x[1h:30s] offset 1m", 60))
        self.assertEqual(
            "x < 1073741824  # 1GiB",
            scaled.expression("x < 1073741824  # 1GiB", 60))
        self.assertEqual("y900 > 15  ",
                         scaled.expression("y900 > 900  # 15m", 60))

    def test_comment_that_lies(self):
        with self.assertRaisesRegex(ValueError, "no 900 in"):
            scaled.expression("x > 600  # 15m", 60)

    def test_no_duration_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(RULES, folder, dirs_exist_ok=True)
            scaled.scale(folder, 60)
            for path in pathlib.Path(folder).glob("*.yml"):
                text = path.read_text()
                self.assertIsNone(re.search(r"\[\d+[smhdw]\]", text), path)
                self.assertIsNone(
                    re.search(r"(?:for|interval|wait): \d+[smhdw]\n", text),
                    path)

    def test_nothing_else_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(RULES, folder, dirs_exist_ok=True)
            scaled.scale(folder, 1)
            for path in RULES.glob("mpsd_*.yml"):
                self.assertEqual(
                    [self.told(rule) for rule in self.rules(path)],
                    [self.told(rule) for rule in
                     self.rules(pathlib.Path(folder) / path.name)])

    @staticmethod
    def rules(path):
        return [rule for group in yaml.safe_load(path.read_text())["groups"]
                for rule in group["rules"]]

    @staticmethod
    def told(rule):
        """A rule with durations in milliseconds and without comments."""
        expr = re.sub(r"#.*", "", rule["expr"])
        expr = re.sub(r"\[(\w+)\]",
                      lambda m: f"[{scaled.duration(m.group(1), 1)}]", expr)
        return {**rule, "expr": expr.split(),
                "for": scaled.duration(rule.get("for", "0s"), 1)}


if __name__ == "__main__":
    unittest.main()
