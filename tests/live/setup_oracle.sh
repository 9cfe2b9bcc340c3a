#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/oracle, the Python that the golden data and the live suites are
# computed with: pinned torch (CPU), Transformers, PEFT, accelerate. About two
# minutes and 1.5 GB once; nothing when it is there already.
#
# usage: setup_oracle.sh [VENV]        (default build/oracle)
# PYTHON names the interpreter to use (3.11 or newer, default python3).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${1:-$root/build/oracle}
python=${PYTHON:-python3}
stamp=$venv/.complete
want=$(cat "$here/requirements.txt" "$here/gpu_stubs.py" | cksum)

if [[ -f $stamp && $(cat "$stamp") == "$want" ]]; then
  exit 0
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "setup_oracle: $python is older than 3.11; set PYTHON=..." >&2
  exit 1
fi

rm -f "$stamp"
[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
echo "setup_oracle: installing torch, transformers and peft into $venv" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps -r "$here/requirements.txt"
if [[ $(uname -s) == Linux ]]; then
  libraries=$("$venv/bin/python" -c '
import sysconfig; print(sysconfig.get_path("purelib") + "/torch/lib")')
  "$venv/bin/python" "$here/gpu_stubs.py" "$libraries" >&2
fi
"$venv/bin/python" -c '
import accelerate, peft, tokenizers, torch, transformers
torch.ones(2, 2) @ torch.ones(2, 2)
print("setup_oracle: torch", torch.__version__, "transformers",
      transformers.__version__, "peft", peft.__version__)' >&2
echo "$want" >"$stamp"
