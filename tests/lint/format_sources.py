# SPDX-License-Identifier: Apache-2.0
"""Holds C++ against clang-format and core/text's Rust against rustfmt.

    format_sources.py ROOT (c++ | rust) [--fix] [FILE…]

--fix writes the files as the formatter wants them. Without FILEs all of the
checkout. Exit status 77: the formatter is missing.
"""

import argparse
import pathlib
import re
import subprocess

import lint_tools


def format_cpp(root, files, fix):
    """The lines that clang-format would change; with `fix` it changes them."""
    tool = lint_tools.find_tool(root, "clang-format")
    if tool is None:
        lint_tools.skip("no clang-format; deploy/setup.sh --tests installs it")
    how = ["-i"] if fix else ["--dry-run"]
    done = subprocess.run([tool, "--style=file", *how, *files], cwd=root,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [done.stderr.strip()]
    return list(dict.fromkeys(
        f"{path}:{line}: not as clang-format writes it"
        for path, line in re.findall(
            r"^(\S+):(\d+):\d+: warning: code should be clang-formatted",
            done.stderr, re.M)))


def format_rust(root, files, fix):
    tool = lint_tools.find_tool(root, "rustfmt")
    if tool is None:
        lint_tools.skip("no rustfmt; the package of that name, or rustup, "
                        "has it")
    manifest = (root / "core/text/crate/Cargo.toml").read_text(encoding="utf-8")
    edition = re.search(r'^edition = "(\d+)"', manifest, re.M).group(1)
    how = [] if fix else ["--check", "--color=never"]
    done = subprocess.run([tool, f"--edition={edition}", *how, *files],
                          cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "Diff in " not in done.stdout:
        return [done.stderr.strip()]
    # rustfmt walks into the modules that a file declares, so that it may meet
    # a file more than once.
    return list(dict.fromkeys(
        f"{pathlib.Path(path).relative_to(root)}:{line}: not as rustfmt "
        "writes it" for path, line in re.findall(
            r"^Diff in (\S+?):(\d+):", done.stdout, re.M)))


FORMATTERS = {"c++": (format_cpp, (".h", ".cc", ".mm")),
              "rust": (format_rust, (".rs",))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("language", choices=FORMATTERS)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_intermixed_args()
    root = options.root.resolve()
    check, suffixes = FORMATTERS[options.language]
    files = lint_tools.sources(root, options.files, suffixes)
    problems = check(root, files, options.fix) if files else []
    lint_tools.finish(problems, "`tests/lint.sh --all --fix` mends them.")


if __name__ == "__main__":
    main()
