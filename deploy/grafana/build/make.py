#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboards as the JSON that Grafana loads: deploy/grafana/*.json.

    build/venv/bin/python -B deploy/grafana/build/make.py [FOLDER]

Needs grafana-foundation-sdk, which deploy/setup.sh --tests installs. FOLDER
replaces deploy/grafana."""

import pathlib
import sys

import fleet
import frame
import job
import overview

HERE = pathlib.Path(__file__).resolve().parent


def all_texts():
    return {f"{room.__name__}.json": frame.text(room.make())
            for room in (overview, job, fleet)}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent
    for name, text in all_texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
