# SPDX-License-Identifier: Apache-2.0
"""deploy/prometheus for a world in which time runs faster: every duration of
its rules and configurations is divided by a factor, and nothing else changes.

usage: scaled.py FOLDER FACTOR   (FOLDER: a copy of deploy/prometheus)"""

import pathlib
import re
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]
                       / "deploy/prometheus"))
import promql  # noqa: E402

# Keys of Prometheus' and Alertmanager's configurations that hold durations.
KEYS = {"for", "interval", "scrape_interval", "scrape_timeout",
        "evaluation_interval", "group_wait", "group_interval",
        "repeat_interval", "resolve_timeout"}


def duration(text, factor):
    """"15m" by 60: "15s"; no less than a millisecond."""
    milliseconds = max(1, round(promql.seconds(text) * 1000 / factor))
    return f"{milliseconds}ms"


def expression(text, factor):
    """Ranges, offsets, and the numbers whose line ends in their duration."""
    lines = []
    for line in text.splitlines():
        comment = re.search(r"#\s*(\d+(?:ms|[smhdw]))\s*$", line)
        if comment:
            seconds = promql.seconds(comment.group(1))
            number = f"{seconds:.0f}"
            if not re.search(rf"(?<![\w.]){number}(?![\d.])", line):
                raise ValueError(f"no {number} in: {line}")
            line = re.sub(rf"(?<![\w.]){number}(?![\d.])",
                          f"{seconds / factor:.12g}", line[:comment.start()])
        line = re.sub(
            r"\[([^\]]*)\]",
            lambda m: "[" + ":".join(duration(part, factor) if part else ""
                                     for part in m.group(1).split(":")) + "]",
            line)
        line = re.sub(r"\boffset (\w+)",
                      lambda m: f"offset {duration(m.group(1), factor)}", line)
        lines.append(line)
    return "\n".join(lines)


def scaled(node, factor):
    if isinstance(node, list):
        return [scaled(item, factor) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: expression(value, factor) if key == "expr"
            else duration(value, factor) if key in KEYS
            else scaled(value, factor) for key, value in node.items()}


def scale(folder, factor):
    """Rewrites each YAML file of the folder."""
    for path in pathlib.Path(folder).glob("*.yml"):
        content = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(scaled(content, factor),
                                       sort_keys=False))


if __name__ == "__main__":
    scale(sys.argv[1], float(sys.argv[2]))
