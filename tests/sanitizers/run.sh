#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and passes every unit test under the sanitizers, first AddressSanitizer
# with UndefinedBehaviorSanitizer, then ThreadSanitizer: two whole builds of
# their own, in build/asan and build/tsan.
#
#   tests/sanitizers/run.sh [asan | tsan] [CTEST ARGUMENT…]
#     asan, tsan  this one alone
#
# Both run, no matter what the first finds; the last lines say how each ended.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
presets="asan tsan"
case "${1:-}" in
  -h | --help)
    sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  asan | tsan)
    presets="$1"
    shift
    ;;
esac

"$root/deploy/setup.sh" --tests
cd "$root"
# Threads of OpenMP must not spin while tests run at the same time.
export OMP_WAIT_POLICY=PASSIVE

under() {
  local preset="$1"
  shift
  "$root/deploy/build.sh" --preset "$preset" || return
  ctest --preset "$preset" -j 4 "$@"
}

failed=""
for preset in $presets; do
  under "$preset" "$@" || failed="$failed $preset"
done
for preset in $presets; do
  case "$failed " in
    *" $preset "*) echo "sanitizers: $preset: FAILED" ;;
    *) echo "sanitizers: $preset: passed" ;;
  esac
done
[ -z "$failed" ]
