#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds mpsd, mpsctl and mpsd-worker into build/release/bin,
# after deploy/setup.sh.
#
#   deploy/build.sh [--tests] [TARGET…]
#     --tests  also the tests; they stay on in this tree until it is removed
#   MPSD_JOBS=N limits the compilers at work; the default goes by cores and
#   memory.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
tree="$root/build/release"

# A source that includes torch takes up to 2 GB to compile.
jobs_by_memory() {
  local cores bytes limit
  if [ "$(uname -s)" = Darwin ]; then
    cores="$(sysctl -n hw.ncpu)"
    bytes="$(sysctl -n hw.memsize)"
  else
    cores="$(nproc)"
    bytes="$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)"
    limit="$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)"
    if [ "$limit" != max ] && [ "$limit" -lt "$bytes" ]; then
      bytes="$limit"
    fi
  fi
  limit=$((bytes / 2000000000))
  [ "$limit" -ge 1 ] || limit=1
  [ "$limit" -le "$cores" ] || limit="$cores"
  echo "$limit"
}

jobs="${MPSD_JOBS:-$(jobs_by_memory)}"
if [ -r "$root/build/rust-path" ]; then
  PATH="$(cat "$root/build/rust-path"):$PATH"
  export PATH
fi

arguments=()
if [ "${1:-}" = --tests ]; then
  shift
  arguments+=(-DMPSD_BUILD_TESTS=ON)
fi
if command -v ccache >/dev/null 2>&1; then
  arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # A second clone finds what the first one compiled.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
  # Precompiled headers are looked up in the cache only with these.
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-\
pch_defines,time_macros,include_file_mtime,include_file_ctime}"
fi
if [ "$(uname -s)" = Darwin ]; then
  # Homebrew keeps this one out of the default search path.
  arguments+=("-DOPENSSL_ROOT_DIR=$(brew --prefix)/opt/openssl@3")
fi

cmake -S "$root" -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  ${arguments[@]+"${arguments[@]}"} | tail -n 3
printf 'build: ninja with %s jobs in build/release\n' "$jobs"
ninja -C "$tree" -j "$jobs" --quiet "$@"
printf "build: build/release/bin is up to date\n"
