#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `hf` of the tests: `hf download ID --revision=R --include=PATTERN`, out
of the folder hub/ID next to this file into HF_HUB_CACHE, in the layout of
huggingface_hub. The file `mode` next to it says how it behaves: ok (the
default), fail, hang (in the middle of a file), deaf (hang, and ignore SIGTERM),
flood (write without end), empty (end well without a file). The file `calls`
gets a line of JSON for each call: argv, environment, pid."""

import fnmatch
import hashlib
import json
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def main():
    mode_file = HERE / "mode"
    mode = mode_file.read_text().strip() if mode_file.exists() else "ok"
    with open(HERE / "calls", "a", encoding="utf-8") as calls:
        calls.write(json.dumps({"argv": sys.argv[1:], "pid": os.getpid(),
                                "environment": dict(os.environ)}) + "\n")
    verb, model, revision, include = sys.argv[1:]
    assert verb == "download", sys.argv
    revision = revision.removeprefix("--revision=")
    pattern = include.removeprefix("--include=")
    source = HERE / "hub" / model
    if mode == "fail" or not source.is_dir():
        print(f"Fetching\rError: Repository Not Found for {model}\n"
              "Please check the id.", file=sys.stderr)
        return 1
    while mode == "flood":
        os.write(2, b"x" * 4096 + b"\r" + b"y" * 4096 + b"\n")
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "empty":
        return 0
    commit = hashlib.sha1(revision.encode()).hexdigest()
    folder = (pathlib.Path(os.environ["HF_HUB_CACHE"]) /
              ("models--" + model.replace("/", "--")))
    snapshot = folder / "snapshots" / commit
    for part in (folder / "blobs", folder / "refs", snapshot):
        part.mkdir(parents=True, exist_ok=True)
    files = [f for f in sorted(source.iterdir())
             if fnmatch.fnmatch(f.name, pattern)]
    for number, file in enumerate(files):
        content = file.read_bytes()
        blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
        part = blob.with_suffix(".incomplete")
        part.write_bytes(content[:len(content) // 2])
        print(f"Fetching {len(files)} files:  {100 * number // len(files)}%",
              end="\r", file=sys.stderr, flush=True)
        while mode in ("hang", "deaf") and file.suffix == ".safetensors":
            time.sleep(0.05)
        part.write_bytes(content)
        part.rename(blob)
        link = snapshot / file.name
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(blob, snapshot))
    (folder / "refs" / revision).write_text(commit)
    print(snapshot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
