#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs the tests; ctest's closing lines come last.
#
#   tests/run.sh [CTEST ARGUMENT…]          all tests but the kinds below
#   tests/run.sh --live [CTEST ARGUMENT…]   against Transformers and PEFT, on
#                                           real models
#   tests/run.sh --macos [CTEST ARGUMENT…]  on Linux: everything built, linked
#                                           and checked for an Apple silicon Mac
#   tests/run.sh --nightly [CTEST ARGUMENT…]  campaigns
#   tests/run.sh --lint [CTEST ARGUMENT…]   formats, and Clang over all sources
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
kind=""
case "${1:-}" in
  -h | --help)
    sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  --live | --macos | --nightly | --lint)
    kind="${1#--}"
    shift
    ;;
esac

"$root/deploy/setup.sh" --tests
[ "$kind" != live ] || "$root/tests/live/setup_oracle.sh"
if [ "$kind" = macos ]; then
  "$root/tests/macos/fetch.py"
  "$root/deploy/build.sh" --tests mpsd_core_base  # it builds what it checks
else
  "$root/deploy/build.sh" --tests
fi
cd "$root/build/release"
# Tests run at the same time: OpenMP's threads must not spin while they wait.
export OMP_WAIT_POLICY=PASSIVE
case "$kind" in
  live) exec ctest --output-on-failure -L live -LE nightly "$@" ;;
  ?*) exec ctest --output-on-failure -L "$kind" "$@" ;;
esac
# Tests that compute take two of the four places, those that wait take one.
exec ctest --output-on-failure -LE "live|macos|nightly|lint" -j 4 "$@"
