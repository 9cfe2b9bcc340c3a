# SPDX-License-Identifier: Apache-2.0
"""What promtool does not see of deploy/prometheus' rules: a name or a label that
mpsd does not export, a value that no label takes, an alert without its tests, a
command or a dashboard that does not exist, a threshold without its unit.

usage: check_rules.py CHECKOUT"""

import json
import os
import pathlib
import re
import subprocess
import sys

import promql
import yaml

RULES = "deploy/prometheus"
CASES = "tests/deploy/prometheus"
NAMES = "server/http/names.h"
DASHBOARDS = "deploy/grafana"
SEVERITIES = ("critical", "warning", "info")
# What may distinguish alerts: a series of alerts each.
ALERT_LABELS = {"severity", "job", "instance", "job_id", "device", "reason",
                "class"}
TARGET = {"job", "instance"}  # Prometheus' own labels
OWN_SERIES = {"up": TARGET}   # Prometheus' own series

# (pattern of metric names, label): the file and table that has its values.
EXITS = ("server/store/job.h", "kExitReasons")
VALUES = [
    (r"mpsd_held.*|mpsd_holds_total", "reason",
     ("server/jobs/pause_gate.h", "kHoldReasons")),
    (r"mpsd_paused.*|mpsd_pauses_total", "reason",
     ("server/jobs/pause_gate.h", "kPauseReasons")),
    (r"mpsd_worker_exits_total|mpsd_job_retries_total", "reason", EXITS),
    (r"mpsd_worker_exits_total|mpsd_job_retries_total", "class",
     ("server/jobs/attempt_end.h", "kBlamedParties")),
    (r"mpsd_phase_seconds_total", "phase",
     ("server/jobs/meters.h", "kPhases")),
    (r"mpsd_jobs|mpsd_jobs_ended_total", "state",
     ("server/store/job.h", "kStates")),
    (r"mpsd_notifications_total", "result",
     ("server/notify/notifier.h", "kResults")),
    (r"mpsd_rpc_requests_total", "code",
     ("server/http/daemon_metrics.h", "kRpcCodes")),
    (r"mpsd_.*", "device", ("core/host/traits.h", "kChoices")),
]


def snake_case(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def strings(text):
    """The string literals of C++, adjacent ones joined."""
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', run)) for run in
            re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', text)]


def table(root, path, name):
    """The names in one of the code's tables, in snake_case."""
    file = root / path
    text = file.read_text() if file.exists() else ""
    match = re.search(rf"\b{name}\[\]\s*=\s*\{{(.*?)\}};", text, re.S)
    return {snake_case(s) for s in strings(match.group(1))} if match else None


def rules(root):
    """(file, rule) of each rule."""
    for path in sorted((root / RULES).glob("mpsd_*.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield path.name, rule


def value_problems(root, name, label, operator, value):
    if label in TARGET:
        return
    for pattern, of_label, (path, table_name) in VALUES:
        if label != of_label or not re.fullmatch(pattern, name):
            continue
        known = table(root, path, table_name)
        if known is None:
            yield f"{path} has no table {table_name}"
            return
        named = value.split("|") if operator in ("=~", "!~") else [value]
        for one in named:
            if one not in known:
                yield (f"{name} has no {label} \"{one}\", {path} has "
                       + ", ".join(sorted(known)))
        return
    yield f"no table of the code is known for {name}'s label {label}"


def expression_problems(root, rule, series):
    expression = promql.parse(rule["expr"])
    labels = set()
    for name, matchers in expression.selectors:
        if name not in series:
            yield f"{name} is in neither {NAMES} nor a recording rule"
            continue
        labels |= series[name]
        for label, operator, value in matchers:
            if label not in series[name]:
                yield f"{name} has no label {label}"
            else:
                yield from value_problems(root, name, label, operator, value)
    for label in expression.grouped - labels:
        yield f"groups by {label}, which no series of it has"
    for number, comment in expression.numbers:
        if number < 60:
            continue
        if number not in (promql.seconds(comment), promql.size(comment)):
            yield (f"{number:.0f} has no unit after it, as in "
                   f"\"> 900  # 15m\" or \"# 1GiB\": {comment!r}")
    for text in expression.ranges:
        if promql.seconds(text[1:-1]) is None:
            yield f"{text} is no duration"


def recorded_labels(rule, series):
    """Of a recording rule: those it groups by, or those of what it selects."""
    expression = promql.parse(rule["expr"])
    labels = set()
    for name, _ in expression.selectors:
        labels |= series.get(name, set())
    return labels


NESTED = {"admin", "check", "context", "model"}  # verbs with others below


def helped(verb):
    """What `mpsctl VERB --help` prints; None of a verb that does not exist."""
    program = os.path.join(os.environ["MPSD_BIN_DIR"], "mpsctl")
    done = subprocess.run([program, *verb.split(), "--help"],
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def runbook_problems(text, help_of=helped):
    commands = re.findall(r"`(mpsctl [^`]*)`", text)
    if not text.startswith("`mpsctl "):
        yield "the runbook does not begin with a command of mpsctl"
    for command in commands:
        words = re.sub(r"\{\{.*?\}\}", "ID", command).split()[1:]
        depth = 2 if words[0] in NESTED else 1
        verb, options = " ".join(words[:depth]), words[depth:]
        page = help_of(verb)
        if page is None:
            yield f"`{command}`: mpsctl has no verb {verb}"
            continue
        for i, option in enumerate(options):
            if not option.startswith("-"):
                continue
            line = re.search(rf"^.*(?<![\w-]){re.escape(option)}(?![\w-]).*"
                             r"(?:\n +.*)*", page, re.M)
            if not line:
                yield f"`{command}`: {verb} has no {option}"
            elif i + 1 < len(options) and option == "--state":
                if options[i + 1] not in line.group():
                    yield f"`{command}`: {option} has no {options[i + 1]}"


def dashboards(root):
    """uid: names of its variables; None before there are any."""
    files = sorted((root / DASHBOARDS).glob("*.json"))
    boards = [json.loads(f.read_text()) for f in files]
    return {board["uid"]: {v["name"] for v in
                           board.get("templating", {}).get("list", [])}
            for board in boards if "uid" in board} or None


def link_problems(link, boards):
    match = re.fullmatch(r"/d/([\w-]+)(?:\?(.*))?", link)
    if not match:
        yield f"{link} is no path of a dashboard"
        return
    uid, query = match.group(1), match.group(2) or ""
    if boards is None:
        boards = {f"mpsd-{name}": None for name in ("overview", "job", "fleet")}
    if uid not in boards:
        yield f"there is no dashboard {uid}"
    elif boards[uid] is not None:
        for name in re.findall(r"(?:^|&)var-(\w+)=", query):
            if name not in boards[uid]:
                yield f"the dashboard {uid} has no variable {name}"


def alert_problems(rule, boards, help_of=helped):
    if rule.get("labels", {}).get("severity") not in SEVERITIES:
        yield f"its severity is none of {', '.join(SEVERITIES)}"
    if set(rule.get("labels", {})) != {"severity"}:
        yield "has other labels than its severity"
    annotations = rule.get("annotations", {})
    if set(annotations) != {"summary", "runbook", "dashboard"}:
        yield "its annotations are not summary, runbook and dashboard"
        return
    yield from runbook_problems(annotations["runbook"], help_of)
    yield from link_problems(annotations["dashboard"], boards)


def case_problems(root, alerts):
    """Each alert has a test in which it fires and, later, has resolved, and one
    in which it never fires."""
    fires, quiet = set(), set()
    for path in sorted((root / CASES).glob("*_cases.yml")):
        for test in yaml.safe_load(path.read_text())["tests"]:
            where = f"{path.name}: {test['name']}"
            checks = {}
            for check in test["alert_rule_test"]:
                checks.setdefault(check["alertname"], []).append(
                    (promql.seconds(check["eval_time"]), check["exp_alerts"]))
            for alert, moments in checks.items():
                if alert not in alerts:
                    yield f"{where}: there is no alert {alert}"
                moments.sort(key=lambda moment: moment[0])
                firing = [bool(expected) for _, expected in moments]
                if not any(firing):
                    quiet.add(alert)
                    continue
                if firing[0] or firing[-1]:
                    yield (f"{where}: does not begin and end with "
                           f"{alert} silent")
                fires.add(alert)
                for _, expected in moments:
                    for one in expected:
                        unbounded = set(one["exp_labels"]) - ALERT_LABELS
                        if unbounded:
                            yield f"{where}: has the labels {unbounded}"
                        if not one.get("exp_annotations"):
                            yield f"{where}: does not state its text"
    for alert in sorted(alerts - fires):
        yield f"{alert}: no test in which it fires and resolves"
    for alert in sorted(alerts - quiet):
        yield f"{alert}: no test in which it stays quiet"


def check(root, help_of=helped):
    root = pathlib.Path(root)
    series = {**OWN_SERIES, **{name: one.labels | TARGET for name, one
                               in promql.exported(root).items()}}
    found = list(rules(root))
    for _, rule in found:
        if "record" in rule:
            series[rule["record"]] = recorded_labels(rule, series)
    problems = []
    boards = dashboards(root)
    for file, rule in found:
        name = rule.get("record") or rule["alert"]
        faults = list(expression_problems(root, rule, series))
        if "alert" in rule:
            faults += alert_problems(rule, boards, help_of)
        problems += [f"{file}: {name}: {fault}" for fault in faults]
    problems += case_problems(root, {rule["alert"] for _, rule in found
                                     if "alert" in rule})
    return problems


def main():
    problems = check(sys.argv[1])
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
