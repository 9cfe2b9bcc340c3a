# SPDX-License-Identifier: Apache-2.0
"""The files that are, or would be, committed, for the checks of this folder."""

import os
import pathlib
import subprocess
import sys

SKIPPED = {".git", "build", "__pycache__", "target", ".cache"}


def _tracked(root):
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True, check=False)
    if listing.returncode != 0:
        return None
    return [os.fsdecode(p) for p in listing.stdout.split(b"\0") if p]


def _walked(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in SKIPPED]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def files(root):
    """Paths below `root`, sorted, '/' between parts. Outside of git, all."""
    root = pathlib.Path(root)
    paths = _tracked(root) if (root / ".git").exists() else None
    if paths is None:
        paths = _walked(root)
    return sorted(p.replace(os.sep, "/") for p in paths
                  if (root / p).is_file()
                  and not SKIPPED & set(pathlib.PurePath(p).parts))


def read(root, path):
    """The text, or None of what is no UTF-8."""
    try:
        return (pathlib.Path(root) / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def main(check):
    """Runs check(root) -> problems for the root that the command line names."""
    problems = check(pathlib.Path(sys.argv[1]))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    sys.exit(1 if problems else 0)
