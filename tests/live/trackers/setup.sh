#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/trackers, the Python with TensorBoard, Weights & Biases and
# MLflow, pinned: 0.4 GB once; nothing when it is there already.
#
# usage: setup.sh [VENV]               (default build/trackers)
# PYTHON names the interpreter to use (3.11 or newer, default python3).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-$here/../../../build/trackers}
python=${PYTHON:-python3}
stamp=$venv/.complete

cmp -s "$here/requirements.txt" "$stamp" && exit 0
rm -f "$stamp"
[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps -r "$here/requirements.txt"
cp "$here/requirements.txt" "$stamp"
