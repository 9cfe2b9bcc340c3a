#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds mpsd, mpsctl and mpsd-worker into build/release/bin,
# after deploy/setup.sh. `deploy/build.sh mpsctl` needs no other command before
# it: without torch it installs what mpsctl needs and configures mpsctl alone.
#
#   deploy/build.sh [--tests | --preset NAME] [TARGET…]
#     --tests        also the tests; they remain enabled in this tree until it
#                    is removed
#     --preset NAME  a preset of CMakePresets.json, in build/NAME
#   MPSD_JOBS=N limits the concurrent compilers; the default depends on cores
#   and memory. MPSD_WERROR=ON or OFF: whether a compiler's warning is an error;
#   the default is CMakeLists.txt's.
# Prints how many steps there are. On a terminal ninja shows its progress;
# elsewhere a line every half minute reports it. An interrupted build continues
# where it was.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
folder=build/release

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

# Forwards ninja's output, except the line for each step, which becomes a line
# every MPSD_PROGRESS_SECONDS (set by tests).
show_progress() {
  local line step every="${MPSD_PROGRESS_SECONDS:-30}" shown=0
  SECONDS=0
  while IFS= read -r line; do
    case "$line" in
      "[step "*"] "*)
        step="${line%%"] "*}"
        if [ $((SECONDS - shown)) -ge "$every" ]; then
          shown=$SECONDS
          printf 'build: %s, %s min\n' "${step#"[step "}" $((SECONDS / 60))
        fi
        ;;
      "ninja: Entering directory"*) ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
}

run_ninja() {
  if [ -t 1 ]; then
    ninja -C "$root/$folder" -j "$jobs" "$@"
  else
    NINJA_STATUS="[step %f of %t] " ninja -C "$root/$folder" -j "$jobs" "$@" |
      show_progress
  fi
}

announce() {
  local steps
  [ ! -e "$root/$folder/.ninja_log" ] || return 0
  steps="$(ninja -C "$root/$folder" -t commands "$@" | wc -l)"
  printf 'build: the first build has %s steps\n' "$((steps))"
  [ "$*" = mpsctl ] ||
    printf 'build: mpsctl alone, for a laptop: deploy/build.sh mpsctl\n'
}

client=OFF
if [ "$*" = mpsctl ] &&
  ! compgen -G "$root/build/venv/lib/python3*/site-packages/torch" >/dev/null
then
  client=ON
  [ -e "$root/build/npm/run_page/installed.json" ] ||
    "$root/deploy/setup.sh" --client
fi
jobs="${MPSD_JOBS:-$(jobs_by_memory)}"
if [ -r "$root/build/rust-path" ]; then
  PATH="$(cat "$root/build/rust-path"):$PATH"
  export PATH
fi

arguments=("-DMPSD_CLIENT_ONLY=$client")
case "${1:-}" in
  --tests)
    shift
    arguments+=(-DMPSD_BUILD_TESTS=ON)
    ;;
  --preset)
    preset="${2:?--preset needs a name of CMakePresets.json}"
    folder="build/$preset"
    arguments+=(--preset "$preset")
    shift 2
    ;;
esac
if [ "$folder" = build/release ]; then
  arguments+=(-B "$root/$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release)
fi
if [ -n "${MPSD_WERROR:-}" ]; then
  arguments+=("-DMPSD_WERROR=$MPSD_WERROR")
fi
if command -v ccache >/dev/null 2>&1; then
  arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  # A second clone of the repository reuses what the first one compiled.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
  # ccache looks up precompiled headers only with these settings.
  export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-\
pch_defines,time_macros,include_file_mtime,include_file_ctime}"
fi
if [ "$(uname -s)" = Darwin ]; then
  # Homebrew keeps this package out of the default search path.
  arguments+=("-DOPENSSL_ROOT_DIR=$(brew --prefix)/opt/openssl@3")
fi

cmake -S "$root" "${arguments[@]}" | tail -n 3
printf 'build: ninja with %s jobs in %s\n' "$jobs" "$folder"
announce "$@"
SECONDS=0
run_ninja "$@"
printf 'build: %s/bin is up to date after %s min\n' \
  "$folder" $((SECONDS / 60))
