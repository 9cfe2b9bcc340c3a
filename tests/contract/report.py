# SPDX-License-Identifier: Apache-2.0
"""A field of a report reaches every frame. core/report/report.h has the one
list of each report; held against it are the structs themselves, the trainer
that fills them, the names that the daemon gives them, the API's messages, the
Prometheus gauges and the tables of a run's logs in client/README.md. What a
frame leaves out on purpose is here or in server/store/job.h."""

import re

import source_tree

REPORTS = "core/report/report.h"
README = "client/README.md"
EVENTS = "server/store/job.h"
PROTO = "proto/mpsd/v1/job.proto"
GAUGES = "server/http/names.h"

# The API's message of a report, as the daemon names its fields.
MESSAGES = {"Progress": "Progress", "Evaluated": "Evaluated",
            "MemoryCounters": "DeviceMemory"}

# Fields of a step that are no gauge: counters and histograms of their own,
# and what only a person who follows the job wants.
NO_GAUGE = {
    "epoch", "tokens", "label_tokens", "step_seconds", "tokens_per_second",
    "device", "memory", "cpu_fallback_ops", "metrics"}

# Who walks the lists: no frame has names of its own.
FRAMES = {
    "core/wire/messages.cc": r"\bFields\(writer, m, &m\)",
    "core/train/run_folder.cc": r"\bFields\(writer, progress, &progress\)",
    "core/report/tensorboard.cc":
        r"\bFields\(collector, progress, &progress\)",
    "server/store/job_rows.cc": r"\bEventFields\(writer, body, &body\)",
    "server/rpc/convert.cc": r"\bEventFields\(writer, progress, &progress\)",
    "server/http/job_metrics.cc":
        r"\bEventFields\(numbers, progress, &progress\)",
}


def bare(text):
    """Without comments."""
    return re.sub(r"//[^\n]*", "", text)


def members(text):
    """{struct: its members}."""
    found = {}
    for name, body in re.findall(r"\bstruct (\w+) \{\n(.*?)^\};", text,
                                 re.S | re.M):
        found[name] = re.findall(
            r"^\s+[\w:<>, ]+?[\s>](\w+)(?:\s*=\s*[^;]+)?;", body, re.M)
    return found


def bodies(text, function):
    """{struct: body of its list}."""
    return dict(re.findall(
        r"void " + function + r"\([^)]*const (\w+)\*\) \{\n(.*?)^\}", text,
        re.S | re.M))


def visited(body):
    """(name, member) of each v("name", m.member)."""
    return re.findall(r'\bv\("(\w+)", \w+\.([\w.]+)\)', body)


def event_names(names, body):
    """The list as the daemon names it: renamed, replaced and left out."""
    changes = {field: re.findall(r'\bv\("(\w+)"', code) for field, code in
               re.findall(r'if \(field == "(\w+)"\) (\{.*?\n    \}|[^;]*;)',
                          body, re.S)}
    changes.update({field: [] for field in
                    re.findall(r'field != "(\w+)"', body)})
    reported = [new for name in names for new in changes.get(name, [name])]
    return reported, sorted(set(changes) - set(names))


def message_fields(text, name):
    match = re.search(r"^message " + name + r" \{\n(.*?)^\}", text,
                      re.S | re.M)
    return re.findall(r"\b(\w+) = \d+;", match.group(1)) if match else []


def list_problems(reports):
    structs, lists = members(reports), bodies(reports, "Fields")
    for name, fields in structs.items():
        if name == "EnumName":
            continue
        pairs = visited(lists.get(name, ""))
        for field in fields:
            if (field, field) not in pairs:
                yield f"{REPORTS}: {name}.{field} is not in its field list"
        for called, member in pairs:
            if member not in fields or called != member:
                yield f"{REPORTS}: {name} lists '{called}' as {member}"


def filler_problems(root, paths, lists):
    source = "\n".join(bare(source_tree.read(root, path)) for path in paths
                       if re.match(r"core/train/\w+\.cc$", path))
    for name in ("Progress", "MemoryCounters"):
        for field, _ in visited(lists.get(name, "")):
            if not re.search(rf"\w\.{field}\s*(?:\+=|=(?!=))", source):
                yield f"core/train: no code sets {name}.{field}"


def proto_problems(reported, proto):
    for name, message in MESSAGES.items():
        fields = message_fields(proto, message)
        for field in reported[name]:
            if field not in fields:
                yield f"{PROTO}: message {message} lacks {field} of {name}"
        for field in fields:
            if field not in reported[name]:
                yield f"{PROTO}: message {message}: no code sets {field}"


def gauge_problems(reported, names):
    gauges = re.findall(r'",\s*"(\w+)"\},$', names, re.M)
    known = reported["Progress"] + reported["MemoryCounters"]
    for field in known:
        if field not in gauges and field not in NO_GAUGE:
            yield (f"{GAUGES}: no gauge of {field}, nor is it among those "
                   f"without one")
    for field in sorted(set(gauges) - set(known)):
        yield f"{GAUGES}: no step has {field}"


def documented(readme, log):
    """The members that the table of a log lists."""
    table = re.search(rf"^\| `{re.escape(log)}` \|.*\n((?:\|.*\n)+)", readme,
                      re.M)
    return re.findall(r"^\| `([\w.]+)` \|", table.group(1), re.M) if table else []


def readme_problems(lists, readme):
    """The tables of metrics.jsonl and eval.jsonl have each member of a line."""
    fields = {name: [field for field, _ in visited(lists.get(name, ""))]
              for name in MESSAGES}
    memory = [f"memory.{field}" for field in fields["MemoryCounters"]]
    lines = {
        "metrics.jsonl": [m for field in fields["Progress"]
                          for m in (memory if field == "memory" else ["NAME"]
                                    if field == "metrics" else [field])],
        "eval.jsonl": ["eval_NAME" if field == "metrics" else field
                       for field in fields["Evaluated"]]}
    for log, members_of_line in lines.items():
        rows = documented(readme, log)
        for field in sorted(set(members_of_line) - set(rows)):
            yield f"{README}: the table of {log} lacks {field}"
        for field in sorted(set(rows) - set(members_of_line)):
            yield f"{README}: no line of {log} has {field}"


def check(root):
    paths = set(source_tree.files(root))
    text = {path: bare(source_tree.read(root, path))
            for path in (REPORTS, EVENTS, PROTO, GAUGES, *FRAMES)
            if path in paths}
    if README in paths:
        text[README] = source_tree.read(root, README)
    missing = [f"{path}: is missing"
               for path in (REPORTS, EVENTS, PROTO, GAUGES, README, *FRAMES)
               if path not in text]
    if missing:
        return missing
    lists = bodies(text[REPORTS], "Fields")
    events = bodies(text[EVENTS], "EventFields")
    problems = list(list_problems(text[REPORTS]))
    reported = {}
    for name in MESSAGES:
        names = [field for field, _ in visited(lists.get(name, ""))]
        reported[name], stale = event_names(names, events.get(name, ""))
        problems += [f"{EVENTS}: no {name} has {field}" for field in stale]
    problems += filler_problems(root, sorted(paths), lists)
    problems += proto_problems(reported, text[PROTO])
    problems += gauge_problems(reported, text[GAUGES])
    problems += readme_problems(lists, text[README])
    for path, walk in FRAMES.items():
        if not re.search(walk, text[path]):
            problems.append(f"{path}: does not walk the field list")
    return problems


if __name__ == "__main__":
    source_tree.main(check)
