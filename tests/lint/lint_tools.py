# SPDX-License-Identifier: Apache-2.0
"""What the checks of this folder share: where their tools are, which files of
the checkout they look at, and how they end."""

import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77  # as ctest is set to read it


def skip(reason):
    """Ends the check unheld, and says so."""
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def finish(problems, repair):
    """Prints the problems and ends the check; `repair` is what to do."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problem(s). {repair}")
    sys.exit(1 if problems else 0)


def find_tool(root, name):
    """The path of a program: the pinned one of build/venv, rustfmt next to the
    Rust that deploy/setup.sh found, else one on the PATH; None without one."""
    folders = [root / "build/venv/bin"]
    rust = root / "build/rust-path"
    if rust.exists():
        folders.append(pathlib.Path(rust.read_text(encoding="utf-8").strip()))
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    return shutil.which(name)


def sources(root, named, suffixes):
    """The files that git knows or would add, relative to `root`, with one of
    `suffixes`; where any are named, those of them alone."""
    if named:
        paths = [os.path.relpath(pathlib.Path(p).resolve(), root) for p in named]
    else:
        listing = subprocess.run(
            ["git", "-C", str(root), "ls-files", "--cached", "--others",
             "--exclude-standard"], capture_output=True, text=True, check=True)
        paths = listing.stdout.splitlines()
    return sorted({p for p in paths
                   if p.endswith(suffixes) and (root / p).is_file()})
