#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts llama.cpp, compiled here, and mlx-lm next to the oracle's packages: ten
# minutes of two cores once; nothing when they are there already.
#
# usage: setup.sh ORACLE FOLDER        (build/oracle, build/export)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cmp -s "$here/requirements.txt" "$2/.complete" && exit 0
rm -rf "$2"
CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF" \
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps --no-binary llama-cpp-python --target "$2" \
  -r "$here/requirements.txt"
cp "$here/requirements.txt" "$2/.complete"
