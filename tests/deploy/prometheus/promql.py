# SPDX-License-Identifier: Apache-2.0
"""What the tests need to know of a PromQL expression: which series it selects,
by which labels it groups, which numbers and durations stand in it; and the
series that mpsd exports."""

import dataclasses
import re
import typing

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
WORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "bool",
         "group_left", "group_right", "offset", "inf", "nan"}

STRING = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(
    rf"(?P<comment>\#[^\n]*)|(?P<string>{STRING})|(?P<range>\[[^\]]*\])"
    rf"|(?P<selector>\{{(?:{STRING}|[^}}\"])*\}})|(?P<name>[A-Za-z_:][\w:]*)"
    r"|(?P<duration>\d+(?:ms|[smhdw])\b)|(?P<number>\d+(?:\.\d+)?(?:e\d+)?)"
    r"|(?P<other>[^\s])")
MATCHER = re.compile(rf"(\w+)\s*(=~|!~|!=|=)\s*({STRING})")


@dataclasses.dataclass
class Expression:
    # Each selected series: (name, [(label, operator, value)]).
    selectors: list
    grouped: set   # labels of by (…), on (…) and the like
    numbers: list  # (number, the comment at the end of its line or "")
    ranges: list   # "[15m]"


def parse(text):
    selectors, grouped, numbers, ranges = [], set(), [], []
    tokens = list(TOKEN.finditer(text))
    comments = {text.count("\n", 0, t.start()): t.group()[1:].strip()
                for t in tokens if t.lastgroup == "comment"}
    tokens = [t for t in tokens if t.lastgroup != "comment"]
    labels_until = -1
    for i, token in enumerate(tokens):
        value = token.group()
        following = tokens[i + 1].group() if i + 1 < len(tokens) else ""
        if token.lastgroup == "name" and i <= labels_until:
            grouped.add(value)
        elif token.lastgroup == "name" and value.lower() in WORDS:
            if following == "(" and value not in ("and", "or", "unless"):
                labels_until = next(j for j in range(i, len(tokens))
                                    if tokens[j].group() == ")")
        elif token.lastgroup == "name" and following != "(":
            # An aggregation may stand before its grouping: sum by (x) (y).
            if following in ("by", "without"):
                continue
            matchers = []
            if following.startswith("{"):
                matchers = [(label, operator, quoted[1:-1])
                            for label, operator, quoted
                            in MATCHER.findall(following)]
            selectors.append((value, matchers))
        elif token.lastgroup == "number":
            line = text.count("\n", 0, token.start())
            numbers.append((float(value), comments.get(line, "")))
        elif token.lastgroup == "range":
            ranges.append(value)
    return Expression(selectors, grouped, numbers, ranges)


def seconds(duration):
    """Of "90m" or "1h30m"; None of what is no duration."""
    parts = re.findall(r"(\d+)(ms|[smhdw])", duration)
    if "".join(n + u for n, u in parts) != duration or not parts:
        return None
    return sum(int(n) * UNITS[u] for n, u in parts)


def size(text):
    """Bytes of "1GiB"; None of what is no size."""
    match = re.fullmatch(r"(\d+)([KMG]iB)", text)
    return int(match.group(1)) * SIZES[match.group(2)] if match else None


class Series(typing.NamedTuple):
    name: str    # of its metric: a histogram has three series
    labels: set


def exported(root):
    """{name of a series: Series} of server/http/names.h."""
    text = (root / "server/http/names.h").read_text()
    series = {}
    for name, kind, labels in re.findall(
            r'\{\s*"((?:mpsd|process)_\w+)",\s*MetricKind::k(\w+),\s*'
            r'"([^"]*)"', text):
        one = Series(name, {label for label in labels.split(", ") if label})
        if kind == "Histogram":
            series[f"{name}_bucket"] = Series(name, one.labels | {"le"})
            series[f"{name}_sum"] = series[f"{name}_count"] = one
        else:
            series[name] = one
    return series
