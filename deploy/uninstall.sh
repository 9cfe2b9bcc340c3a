#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Removes what deploy/install.sh installed: stops the service (a running job
# writes a checkpoint first) and removes every file except the state folder,
# with its jobs, database, uploads, log and mpsd.toml.
#
#   deploy/uninstall.sh [OPTION…]
#     --purge    also the state folder and the service's logs; without it you
#                are asked, or without a terminal they are kept
#     --user, --system, --service-user, --prefix, --state-dir, --dry-run and
#     DESTDIR    as they were for install.sh
set -euo pipefail

NAME=uninstall
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=deploy/layout.sh
. "$root/deploy/layout.sh"

usage() { sed -n '3,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

drop() {
  [ -e "$root_dir$1" ] || return 0
  say "removing $1"
  run rm -f "$root_dir$1"
}

# Removes folders that only mpsd put files into.
drop_empty() {
  [ -d "$root_dir$1" ] || return 0
  run rmdir "$root_dir$1" 2>/dev/null || true
}

stop() {
  local target
  manager_runs || return 0
  if [ "$system" = Darwin ]; then
    target="$(domain)"
    if launchctl print "$target/$label" >/dev/null 2>&1; then
      run launchctl bootout "$target/$label" ||
        die "launchd did not remove $label"
    fi
  elif [ -e "$service" ]; then
    systemd disable --quiet --now "$label" || die "systemd did not stop $label"
  fi
}

files() {
  local program file
  for program in $PROGRAMS; do
    drop "$prefix/bin/$program"
  done
  # Only mpsd uses this folder.
  for file in "$root_dir$prefix"/lib/mpsd/lib*; do
    [ ! -e "$file" ] || drop "${file#"$root_dir"}"
  done
  drop_empty "$prefix/lib/mpsd"
  drop "$service"
  [ -z "$rotation" ] || drop "$rotation"
  if [ "$system" = Linux ] && manager_runs; then
    systemd daemon-reload
  fi
}

# Whether to also remove the state folder, which contains the users' jobs.
purges() {
  local answer
  [ "$purge" = no ] || return 0
  [ "$dry_run" = no ] && [ -t 0 ] || return 1
  printf 'Also delete %s with all jobs and their results? [y/N] ' "$state"
  read -r answer
  [ "$answer" = y ] || [ "$answer" = Y ]
}

# Whether the folder is a state folder of mpsd; no other is removed as a whole.
purge_state() {
  if [ ! -e "$root_dir$state/mpsd.db" ] &&
    [ ! -e "$root_dir$state/mpsd.toml" ]; then
    say "$state is not a state folder of mpsd: kept"
    return
  fi
  say "removing $state"
  run rm -rf "$root_dir$state"
}

# Removes the service's account once it owns nothing any more.
purge_account() {
  [ "$account" = yes ] && [ -z "$root_dir" ] && has_account "$user" || return 0
  [ ! -d "$state" ] || return 0
  say "removing the account $user"
  if [ "$system" = Darwin ]; then
    run dscl . -delete "/Users/$user"
    run dscl . -delete "/Groups/$user"
  else
    run userdel "$user"
  fi
}

purge=no
while [ $# -gt 0 ]; do
  case "$1" in
    --purge)
      purge=yes
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      shared_option "$@" || {
        usage >&2
        die "unknown argument '$1'"
      }
      shift "$taken"
      ;;
  esac
done

find_layout
stop
files
if purges; then
  [ ! -d "$root_dir$state" ] || purge_state
  if [ -n "$logs" ]; then
    for file in "$root_dir$logs"/mpsd.err* "$root_dir$logs"/mpsd.out*; do
      [ ! -e "$file" ] || drop "${file#"$root_dir"}"
    done
    drop_empty "$logs"
  fi
  purge_account
elif [ -d "$root_dir$state" ]; then
  say "kept: $state (jobs, results, mpsd.toml); --purge removes it"
fi
say "done"
