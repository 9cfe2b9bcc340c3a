#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks every shell script of the checkout $1: it parses, is executable, stops
# at errors, uses nothing that macOS's bash 3.2 lacks, and passes shellcheck
# (that of build/venv, else one on the PATH). Prints each fault.
set -euo pipefail

cd "$1"
faults=0

fault() {
  printf '%s: %s\n' "$1" "$2" >&2
  faults=$((faults + 1))
}

# Associative arrays, mapfile, case conversion, |& and &>>, wait -n, and
# negative subscripts came with bash 4.
NEWER='(declare|local) -A|\<(mapfile|readarray)\>|\$\{[a-z_]+(,,|\^\^)'
NEWER="$NEWER"'|\|&|&>>|\<wait -n|\[-1\]'

shellcheck=build/venv/bin/shellcheck
[ -x "$shellcheck" ] || shellcheck="$(command -v shellcheck || true)"
[ -n "$shellcheck" ] ||
  echo "SKIPPED: shellcheck; deploy/setup.sh --tests installs it" >&2

scripts="$(find deploy tests .ci -type f \
  \( -name '*.sh' -o -path '.ci/run' \) | sort)"
for script in $scripts; do
  bash -n "$script" || fault "$script" "does not parse"
  [ -x "$script" ] || fault "$script" "is not executable"
  grep -q '^set -euo pipefail$' "$script" ||
    fault "$script" "does not 'set -euo pipefail'"
  if [ "$script" != tests/deploy/check_scripts.sh ] &&
    grep -nE "$NEWER" "$script" >&2; then
    fault "$script" "needs a bash newer than 3.2"
  fi
  if [ -n "$shellcheck" ]; then
    "$shellcheck" -x "$script" || fault "$script" "shellcheck complains"
  fi
done
printf '%s scripts, %s faults\n' "$(printf '%s\n' "$scripts" | wc -l)" "$faults"
[ "$faults" -eq 0 ]
