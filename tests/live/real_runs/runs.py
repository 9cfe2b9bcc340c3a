# SPDX-License-Identifier: Apache-2.0
"""What the real runs share: arguments and our worker."""

import json
import pathlib
import subprocess
import sys

import transformers as hf


def arguments(parser, *paths):
    """Adds the `paths` and --device; returns the parsed arguments."""
    for name in paths:
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = parser.parse_args()
    for name in paths:
        setattr(args, name, getattr(args, name).resolve())
    hf.logging.set_verbosity_error()
    return args


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_worker(binary, job, folder):
    """Runs the job afresh; the folder of the run within `folder`."""
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(job, indent=1))
    with open(folder / "log", "w") as log:
        done = subprocess.run(
            [binary / "mpsd-worker", "--job", folder / "job.json", "--out",
             folder / "run"], stdout=log, stderr=log)
    if done.returncode:
        sys.exit(f"{folder}: {(folder / 'log').read_text()}")
    return folder / "run"
