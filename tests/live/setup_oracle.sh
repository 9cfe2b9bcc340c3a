#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Python that the live suites run with, build/oracle: the packages of
# requirements.txt, and over them the newest Transformers, PEFT, accelerate and
# TRL of the registry, looked up at every start. With --pinned, build/pinned:
# those of requirements.txt alone, with which golden files are made. About two
# minutes and 1.5 GB once.
#
# usage: setup_oracle.sh [--pinned] [VENV]
# PYTHON names the interpreter to use (3.11 or newer, default python3).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
name=oracle
[[ ${1:-} != --pinned ]] || { name=pinned; shift; }
venv=${1:-$root/build/$name}
python=${PYTHON:-python3}
stamp=$venv/.complete
want=$(cat "$here/requirements.txt" "$here/gpu_stubs.py" | cksum)

pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Transformers' own dependencies follow it; torch's, which PEFT's would bring,
# do not (see requirements.txt).
upgrade() {
  if ! { pip_install --upgrade transformers tokenizers &&
    pip_install --upgrade --no-deps peft accelerate trl; }; then
    echo "setup_oracle: no registry; the versions of before are used" >&2
  fi
  "$venv/bin/python" -c '
from importlib.metadata import version
print("setup_oracle:", *(f"{name} {version(name)}" for name in (
    "torch", "transformers", "tokenizers", "peft", "trl")))' >&2
}

if [[ -f $stamp && $(cat "$stamp") == "$want" ]]; then
  [[ $name == pinned ]] || upgrade
  exit 0
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "setup_oracle: $python is older than 3.11; set PYTHON=..." >&2
  exit 1
fi

rm -f "$stamp"
[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
echo "setup_oracle: installing torch, transformers and peft into $venv" >&2
pip_install --no-deps -r "$here/requirements.txt"
if [[ $(uname -s) == Linux ]]; then
  libraries=$("$venv/bin/python" -c '
import sysconfig; print(sysconfig.get_path("purelib") + "/torch/lib")')
  "$venv/bin/python" "$here/gpu_stubs.py" "$libraries" >&2
fi
[[ $name == pinned ]] || upgrade
"$venv/bin/python" -c '
import accelerate, peft, tokenizers, torch, transformers
torch.ones(2, 2) @ torch.ones(2, 2)'
echo "$want" >"$stamp"
