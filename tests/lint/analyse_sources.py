# SPDX-License-Identifier: Apache-2.0
"""Reads sources with Clang: its warnings, -Wthread-safety among them, and the
checks of .clang-tidy. Every finding is an error.

    analyse_sources.py ROOT BUILD [FILE…]

BUILD holds compile_commands.json and the generated headers. Without FILEs: all
sources of core/, server/ and client/ that include no torch, whose headers take
Clang 20 seconds a source; of FILEs, those among them. BUILD/clang_tidy records
each source without a finding: until a file that Clang read for it, .clang-tidy,
its command or the tool changes, it is not read again. Exit status 77: no
clang-tidy.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import time

import lint_tools

# A GCC's own options mean nothing to Clang. -Werror of the build would make
# errors of warnings that .clang-tidy leaves out. -H lists the headers read.
OPTIONS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-error", "-H"]
INCLUDED = re.compile(r"^\.+ (.+)\n", re.M)
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.M)


PRECOMPILED = re.compile(r" -Winvalid-pch| -include \S*cmake_pch\.hxx")


def compiled_sources(root, build):
    """The sources that Clang is to read by their paths below `root`, as their
    entries in compile_commands.json; writes `build`/clang_tidy's, where they do
    not use the compiler's precompiled headers, which Clang cannot read."""
    found = {}
    text = (build / "compile_commands.json").read_text(encoding="utf-8")
    for entry in json.loads(text):
        path = os.path.relpath(entry["file"], root)
        # Sources on torch take Clang minutes.
        if (re.match(r"(core|server|client)/", path)
                and "mpsd_torch_pch" not in entry["command"]):
            entry["command"] = PRECOMPILED.sub("", entry["command"])
            found[path] = entry
    (build / "clang_tidy").mkdir(exist_ok=True)
    (build / "clang_tidy/compile_commands.json").write_text(
        json.dumps(list(found.values())), encoding="utf-8")
    return found


def with_headers(root, named, compiled):
    """The compiled sources among `named`, and for a header the source of its
    name, or else the first one that includes it."""
    wanted = set()
    for path in lint_tools.sources(root, named, (".cc", ".h")):
        source = re.sub(r"\.h$", ".cc", path)
        if source in compiled:
            wanted.add(source)
        elif path.endswith(".h"):
            includes = f'#include "{path}"'
            wanted.update([p for p in sorted(compiled) if includes in
                           (root / p).read_text(encoding="utf-8")][:1])
    return wanted


@functools.lru_cache(maxsize=None)
def digest(path):
    """The SHA-256 of a file's bytes; of nothing where it is missing."""
    try:
        return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()
    except OSError:
        return b""


class Analysis:
    """Clang over one checkout, with its records of the sources it has read."""

    def __init__(self, tool, root, build):
        self.tool, self.root, self.build = tool, root, build
        self.begun = time.time()
        options = list(OPTIONS)
        if platform.system() == "Darwin":
            sdk = subprocess.run(["xcrun", "--show-sdk-path"], check=True,
                                 capture_output=True, text=True).stdout.strip()
            options += ["-isysroot", sdk]
        self.command = [
            tool, "-p", str(build / "clang_tidy"), "--quiet",
            f"--config-file={root}/.clang-tidy",
            *(f"--extra-arg={option}" for option in options)]
        version = subprocess.run([tool, "--version"], capture_output=True,
                                 text=True, check=False).stdout
        config = (root / ".clang-tidy").read_text(encoding="utf-8")
        self.how = json.dumps([self.command, version, config])

    def record(self, path):
        return self.build / "clang_tidy" / f"{path}.clean"

    def fingerprint(self, entry, files):
        """Everything that the findings in a source depend on."""
        of_all = hashlib.sha256((self.how + entry["command"]).encode())
        for file in files:
            of_all.update(file.encode() + b"\0" + digest(file))
        return of_all.hexdigest()

    def is_clean(self, path, entry):
        """Whether Clang found nothing in a source that is as it was then."""
        if not self.record(path).exists():
            return False
        text = self.record(path).read_text(encoding="utf-8")
        fingerprint, *files = text.splitlines()
        return fingerprint == self.fingerprint(entry, files)

    def findings(self, path, entry):
        """Clang's findings in one source and the headers that it includes."""
        source, folder = entry["file"], entry["directory"]
        done = subprocess.run([*self.command, source], capture_output=True,
                              text=True, check=False)
        problems = [f"{os.path.relpath(file, self.root)}:{line}: {what}"
                    for file, line, what in FINDING.findall(done.stdout)]
        if done.returncode != 0 and not problems:
            said = INCLUDED.sub("", done.stderr).strip()[-2000:]
            problems = [f"{path}: clang-tidy ended with {done.returncode}: "
                        f"{said}"]
        if not problems:
            self.keep(path, entry, [source] + sorted(
                {os.path.normpath(os.path.join(folder, file))
                 for file in INCLUDED.findall(done.stderr)}))
        return problems

    def keep(self, path, entry, files):
        # A file that was written since may not be the one that Clang read.
        if any(os.stat(file).st_mtime >= self.begun for file in files):
            return
        record = self.record(path)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("\n".join([self.fingerprint(entry, files), *files]),
                          encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    root, build = options.root.resolve(), options.build.resolve()
    tool = lint_tools.find_tool(root, "clang-tidy")
    if tool is None:
        lint_tools.skip("no clang-tidy; deploy/setup.sh --tests installs it")
    if not (build / "compile_commands.json").exists():
        lint_tools.skip(f"{build} has no build; run deploy/build.sh --tests")
    compiled = compiled_sources(root, build)
    wanted = (with_headers(root, options.files, compiled) if options.files
              else set(compiled))
    analysis = Analysis(tool, root, build)
    unread = [path for path in sorted(wanted)
              if not analysis.is_clean(path, compiled[path])]
    print(f"Clang reads {len(unread)} of {len(wanted)} sources" + (
        "; the others are as they were when it found nothing"
        if len(unread) < len(wanted) else ""), flush=True)
    os.nice(10)  # tests that run at the same time have deadlines
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(
            lambda path: analysis.findings(path, compiled[path]), unread)
        # A header's finding comes with each source that includes it.
        problems = list(dict.fromkeys(p for found in results for p in found))
    lint_tools.finish(problems, ".clang-tidy says what each check is for.")


if __name__ == "__main__":
    main()
