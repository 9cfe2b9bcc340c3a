#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python client: generates the API's messages from
# proto/ with the protoc that the build of mpsd uses, and packs them with
# client/python/mpsd. Run deploy/setup.sh first; needs no compiler or torch.
#
#   client/python/build_wheel.sh [OUTPUT]
#     OUTPUT  the folder of the wheel; default: build/python
#
# Prints the path of the wheel.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
output="${1:-$root/build/python}"
python="$root/build/venv/bin/python"
[ -x "$python" ] || python=python3

die() {
  printf 'build_wheel: error: %s\n' "$*" >&2
  exit 1
}

plugin="$(command -v grpc_python_plugin)" ||
  die "grpc_python_plugin is missing: run deploy/setup.sh"
"$python" -c 'import flit_core' 2>/dev/null ||
  die "$python lacks flit_core: run deploy/setup.sh --tests"

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cp -R "$root/client/python/mpsd" "$scratch/mpsd"
cp "$root/client/python/README.md" "$scratch/README.md"
cp "$root"/client/daemons/{find_socket,hold}.sh "$scratch/mpsd/"
find "$scratch" -name __pycache__ -prune -exec rm -rf {} +

protoc --proto_path="$root/proto" --python_out="$scratch" \
  --pyi_out="$scratch" --grpc_out="$scratch" \
  --plugin=protoc-gen-grpc="$plugin" "$root"/proto/mpsd/v1/*.proto
echo '"""The API of proto/mpsd/v1."""' >"$scratch/mpsd/v1/__init__.py"

# Messages of a newer protoc name the oldest runtime that loads them.
runtime="$(sed -n 's/^# Protobuf Python Version: //p' \
  "$scratch/mpsd/v1/job_pb2.py" | head -n 1)"
version="$(sed -n 's/^project(mpsd VERSION \([0-9.]*\).*/\1/p' \
  "$root/CMakeLists.txt")"
[ -n "$version" ] || die "CMakeLists.txt contains no version"
sed "s/@PROTOBUF@/${runtime:-4.21.0}/" "$root/client/python/pyproject.toml" \
  >"$scratch/pyproject.toml"
sed "s/@VERSION@/$version/" "$root/client/python/mpsd/__init__.py" \
  >"$scratch/mpsd/__init__.py"

mkdir -p "$output"
(cd "$scratch" && "$python" -m flit_core.wheel --outdir dist >/dev/null)
for wheel in "$scratch"/dist/*.whl; do
  mv "$wheel" "$output/"
  printf '%s\n' "$output/${wheel##*/}"
done
