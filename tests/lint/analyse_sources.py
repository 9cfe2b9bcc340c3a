# SPDX-License-Identifier: Apache-2.0
"""Reads sources with Clang: its warnings, -Wthread-safety among them, and the
checks of .clang-tidy. Every finding is an error.

    analyse_sources.py ROOT BUILD [FILE…]

BUILD holds compile_commands.json and the generated headers. Without FILEs: all
sources of core/, server/ and client/ that include no torch, whose headers take
Clang 20 seconds a source; of FILEs, those among them. Exit status 77: no
clang-tidy.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import subprocess

import lint_tools

# A GCC's own options mean nothing to Clang.
OPTIONS = ["-Wthread-safety", "-Wno-unknown-warning-option"]
FINDING = re.compile(r"^(\S+?):(\d+):\d+: (?:warning|error): (.*)$", re.M)


def compiled_sources(root, build):
    """The sources that Clang is to read, as compile_commands.json names them,
    by their paths below `root`."""
    found = {}
    text = (build / "compile_commands.json").read_text(encoding="utf-8")
    for entry in json.loads(text):
        path = os.path.relpath(entry["file"], root)
        # Sources on torch have its headers precompiled for the compiler.
        if (re.match(r"(core|server|client)/", path)
                and "cmake_pch" not in entry["command"]):
            found[path] = entry["file"]
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


def analyse(tool, root, build, source):
    """Clang's findings in one source and the headers that it includes."""
    options = list(OPTIONS)
    if platform.system() == "Darwin":
        sdk = subprocess.run(["xcrun", "--show-sdk-path"], check=True,
                             capture_output=True, text=True).stdout.strip()
        options += ["-isysroot", sdk]
    done = subprocess.run(
        [tool, "-p", str(build), "--quiet", f"--config-file={root}/.clang-tidy",
         *(f"--extra-arg={option}" for option in options), source],
        capture_output=True, text=True, check=False)
    problems = [f"{os.path.relpath(path, root)}:{line}: {what}"
                for path, line, what in FINDING.findall(done.stdout)]
    if done.returncode != 0 and not problems:
        problems = [f"{os.path.relpath(source, root)}: clang-tidy ended with "
                    f"{done.returncode}: {done.stderr.strip()[-2000:]}"]
    return problems


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
    print(f"Clang reads {len(wanted)} sources", flush=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: analyse(tool, root, build,
                                                compiled[path]), sorted(wanted))
        # A header's finding comes with each source that includes it.
        problems = list(dict.fromkeys(p for found in results for p in found))
    lint_tools.finish(problems, ".clang-tidy says what each check is for.")


if __name__ == "__main__":
    main()
