# SPDX-License-Identifier: Apache-2.0
"""Negative controls of report.py: the sources themselves, with one thing
taken away."""

import functools
import pathlib
import re
import unittest

import report
import source_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def loaded():
    paths = [report.REPORTS, report.EVENTS, report.PROTO, report.GAUGES,
             report.README,
             *report.FRAMES]
    paths += [p for p in source_tree.files(ROOT)
              if re.match(r"core/train/\w+\.cc$", p)]
    return {path: source_tree.read(ROOT, path) for path in paths}


def sources():
    return dict(loaded())


class ReportTest(source_tree.TreeTest):
    check = staticmethod(report.check)

    def changed(self, path, old, new):
        tree = sources()
        self.assertIn(old, tree[path])
        tree[path] = tree[path].replace(old, new)
        return tree

    def test_clean(self):
        self.assert_clean(sources())

    def test_list_drops(self):
        self.assert_finds(
            "Progress.grad_norm is not in its field list",
            self.changed(report.REPORTS, '  v("grad_norm", m.grad_norm);\n',
                         ""))

    def test_member_without_list(self):
        self.assert_finds(
            "Progress.new_counter is not in its field list",
            self.changed(report.REPORTS, "  Counts cpu_fallback_ops;\n",
                         "  Counts cpu_fallback_ops;\n"
                         "  int64_t new_counter = 0;\n"))

    def test_list_misnames(self):
        self.assert_finds(
            "Progress lists 'tokens' as label_tokens",
            self.changed(report.REPORTS, 'v("tokens", m.tokens)',
                         'v("tokens", m.label_tokens)'))

    def test_readme_forgets(self):
        self.assert_finds(
            "the table of metrics.jsonl lacks memory.footprint_bytes",
            self.changed(report.README, "| `memory.footprint_bytes` |",
                         "| memory |"))
        self.assert_finds(
            "the table of eval.jsonl lacks eval_NAME",
            self.changed(report.README, "| `eval_NAME` |", "| others |"))

    def test_readme_invents(self):
        self.assert_finds(
            "no line of eval.jsonl has runtime",
            self.changed(report.README, "| `eval_loss` |",
                         "| `runtime` | |\n| `eval_loss` |"))

    def test_trainer_forgets(self):
        tree = sources()
        tree = {path: re.sub(r"\.device_utilization_ratio =", ".other =", text)
                if path.startswith("core/train/") else text
                for path, text in tree.items()}
        self.assert_finds("nobody sets Progress.device_utilization_ratio",
                          tree)

    def test_proto_drops(self):
        self.assert_finds(
            "message Progress lacks device_utilization_ratio of Progress",
            self.changed(report.PROTO,
                         "  optional double device_utilization_ratio = 17;\n",
                         ""))

    def test_proto_of_memory_drops(self):
        self.assert_finds(
            "message DeviceMemory lacks footprint_bytes of MemoryCounters",
            self.changed(report.PROTO,
                         "  optional int64 footprint_bytes = 4;", ""))

    def test_proto_has_more(self):
        self.assert_finds(
            "message Evaluated: nobody sets unknown",
            self.changed(report.PROTO, "message Evaluated {\n",
                         "message Evaluated {\n  double unknown = 9;\n"))

    def test_daemon_drops(self):
        self.assert_finds(
            "message Progress: nobody sets padding_ratio",
            self.changed(report.EVENTS,
                         'return v("padding_ratio", e.padding_ratio)',
                         "return"))

    def test_daemon_names_what_is_gone(self):
        self.assert_finds(
            "no Evaluated has gone",
            self.changed(report.EVENTS, 'field != "label_tokens"',
                         'field != "gone" && field != "label_tokens"'))

    def test_gauge_drops(self):
        self.assert_finds(
            "no gauge of device_utilization_ratio",
            self.changed(report.GAUGES, '    {"device_utilization_ratio",\n',
                         '    {"loss",\n'))

    def test_gauge_of_nothing(self):
        self.assert_finds(
            "no step has speed",
            self.changed(report.GAUGES, '    {"loss",\n',
                         '    {"speed",\n'))

    def test_frame_of_its_own(self):
        for path in report.FRAMES:
            tree = sources()
            tree[path] = re.sub(r"\b(Event)?Fields\(", "OwnList(", tree[path])
            self.assert_finds(f"{path}: does not walk the field list", tree)


if __name__ == "__main__":
    unittest.main()
