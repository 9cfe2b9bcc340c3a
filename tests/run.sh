#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs the tests; ctest's closing lines come last.
#
#   tests/run.sh [CTEST ARGUMENT…]         all tests but the live ones
#   tests/run.sh --live [CTEST ARGUMENT…]  the live ones: against Transformers
#                                          and PEFT, on real models
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
live=no
case "${1:-}" in
  -h | --help)
    sed -n '3,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  --live)
    live=yes
    shift
    ;;
esac

"$root/deploy/setup.sh" --tests
[ "$live" = no ] || "$root/tests/live/setup_oracle.sh"
"$root/deploy/build.sh" --tests
cd "$root/build/release"
# Tests run beside each other: OpenMP's threads must not spin while they wait.
export OMP_WAIT_POLICY=PASSIVE
if [ "$live" = yes ]; then
  exec ctest --output-on-failure -L live "$@"
fi
# Some tests start processes and wait for them: two at a time is enough.
exec ctest --output-on-failure -LE live -j 2 "$@"
