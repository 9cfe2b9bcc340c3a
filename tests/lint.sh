#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What every change must pass, in seconds: formats of C++ and Rust, the shell
# scripts, the rules of tests/contract, and Clang over the changed sources that
# include no torch.
#
#   tests/lint.sh [--fix] [--all | FILE…]
#     --fix  formats the files instead of complaining
#     --all  every file, which takes minutes; with neither this nor FILEs, those
#            that differ from where this branch left main
#
# Wants deploy/setup.sh --tests before, and for Clang a build
# (deploy/build.sh --tests); says what it skips.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

usage() { sed -n '3,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# Paths that differ from main, committed or not; on main itself from its commit.
changed_files() {
  local base=HEAD branch
  for branch in origin/main main; do
    if git rev-parse -q --verify "$branch" >/dev/null; then
      base="$(git merge-base "$branch" HEAD)"
    fi
  done
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
}

# Runs a check of tests/lint or tests/contract; its failure is the script's.
failed=no
check() {
  local name="$1" status=0
  shift
  printf '%s\n' "--- $name"
  "$@" || status=$?
  # A check that ends with 77 has said what it lacks.
  [ "$status" -eq 0 ] || [ "$status" -eq 77 ] || failed=yes
}

fix=""
all=no
files=()
for argument in "$@"; do
  case "$argument" in
    --fix) fix=--fix ;;
    --all) all=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      usage >&2
      printf "lint: error: unknown argument '%s'\n" "$argument" >&2
      exit 2
      ;;
    *) files+=("$argument") ;;
  esac
done

if [ "$all" = no ] && [ ${#files[@]} -eq 0 ]; then
  while IFS= read -r file; do
    files+=("$file")
  done < <(changed_files)
  if [ ${#files[@]} -eq 0 ]; then
    echo "lint: nothing changed"
    exit 0
  fi
fi
[ "$all" = no ] || files=()

check clang-format python3 -B tests/lint/format_sources.py . c++ \
  ${fix:+"$fix"} ${files[@]+"${files[@]}"}
check rustfmt python3 -B tests/lint/format_sources.py . rust \
  ${fix:+"$fix"} ${files[@]+"${files[@]}"}
check scripts tests/deploy/check_scripts.sh .
for rule in layering limits hygiene names proto report; do
  check "$rule" python3 -B "tests/contract/$rule.py" .
done
check clang python3 -B tests/lint/analyse_sources.py . build/release \
  ${files[@]+"${files[@]}"}
[ "$failed" = no ]
