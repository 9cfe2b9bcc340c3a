#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where deploy/install.sh puts each file and deploy/uninstall.sh finds it. Both
# scripts source this one and share these options.
# shellcheck disable=SC2034  # variables for those that source this
set -euo pipefail

PROGRAMS="mpsd mpsctl mpsd-worker"

say() { printf '%s: %s\n' "$NAME" "$*"; }

die() {
  printf '%s: error: %s\n' "$NAME" "$*" >&2
  exit 1
}

# Runs a command, or prints it with --dry-run.
run() {
  if [ "$dry_run" = yes ]; then
    printf '+ %s\n' "$*"
  else
    "$@"
  fi
}

# Takes one of the shared options; returns 1 if $1 is not one, else sets $taken
# to the number of its words.
shared_option() {
  taken=1
  case "$1" in
    --user) scope=user ;;
    --system) scope=system ;;
    --dry-run) dry_run=yes ;;
    --prefix | --state-dir | --service-user)
      [ $# -ge 2 ] || die "$1 needs a value"
      taken=2
      case "$1" in
        --prefix) prefix="$2" ;;
        --state-dir) state="$2" ;;
        --service-user) user="$2" ;;
      esac
      ;;
    *) return 1 ;;
  esac
}

# Accepts only characters that need no quotes in a unit, plist or
# newsyslog.conf.
check_path() {
  case "$2" in
    /*) ;;
    *) die "$1 '$2' is not absolute" ;;
  esac
  if printf '%s' "$2" | LC_ALL=C grep -q "$3"; then
    die "$1 '$2': choose a path of letters, digits and . _ + -$4"
  fi
}

# The user that the machine's service runs as now; empty if there is none.
installed_user() {
  if [ "$system" = Darwin ]; then
    sed -n '/<key>UserName</{n;s|.*<string>\(.*\)</string>.*|\1|p;}' \
      "${DESTDIR:-}/Library/LaunchDaemons/org.mpsd.daemon.plist" 2>/dev/null ||
      true
  else
    sed -n 's/^User=//p' \
      "${DESTDIR:-}/etc/systemd/system/mpsd.service" 2>/dev/null || true
  fi
}

# Whether the machine has the account.
has_account() { id "$1" >/dev/null 2>&1; }

# The account of the service if none is given: an upgrade keeps the one that it
# finds, and with it that user's jobs.
find_service_user() {
  [ -z "$user" ] || return 0
  user="$(installed_user)"
  [ -z "$user" ] || return 0
  if [ "$system" = Darwin ]; then user=_mpsd; else user=mpsd; fi
}

find_user() {
  account=no
  if [ "$scope" = user ]; then
    user="$(id -un)"
    home="$HOME"
  else
    find_service_user
    case "$user" in
      *[!A-Za-z0-9._-]* | -*) die "'$user' is not a name for --service-user" ;;
    esac
    case "$user" in
      mpsd | _mpsd) account=yes ;;
      *) has_account "$user" || die "there is no user '$user'" ;;
    esac
    if has_account "$user"; then
      eval "home=~$user"
    elif [ "$system" = Darwin ]; then
      home="${prefix:-/usr/local}/var/mpsd"
    else
      home=/var/lib/mpsd
    fi
  fi
  if has_account "$user"; then group="$(id -gn "$user")"; else group="$user"; fi
}

find_places() {
  if [ "$scope" = user ]; then
    [ -n "$prefix" ] || prefix="$home/.local"
  else
    [ -n "$prefix" ] || prefix=/usr/local
  fi
  logs=""
  rotation=""
  # The home of the service's own account is the state folder.
  [ "$account" = no ] || [ -n "$state" ] || state="$home"
  if [ "$system" = Darwin ]; then
    [ -n "$state" ] || state="$home/Library/Application Support/mpsd"
    if [ "$scope" = user ]; then
      label=org.mpsd.agent
      service="$home/Library/LaunchAgents/$label.plist"
      logs="$home/Library/Logs/mpsd"
    else
      label=org.mpsd.daemon
      service="/Library/LaunchDaemons/$label.plist"
      logs="$prefix/var/log/mpsd"
      rotation=/etc/newsyslog.d/mpsd.conf
    fi
  else
    [ -n "$state" ] || state="$home/.local/state/mpsd"
    label=mpsd.service
    if [ "$scope" = user ]; then
      service="${XDG_CONFIG_HOME:-$home/.config}/systemd/user/$label"
    else
      service="/etc/systemd/system/$label"
    fi
  fi
}

# Sets system, scope, prefix, state, user, group, home, logs, label, account
# (yes: the user is the service's own, not a person's), and the files service
# and rotation (empty: none) from the options.
find_layout() {
  system="$(uname -s)"
  if [ -z "$scope" ]; then
    scope=user
    [ "$(id -u)" -ne 0 ] || scope=system
  fi
  find_user
  find_places
  check_path --prefix "$prefix" '[^A-Za-z0-9/._+-]' ''
  if [ "$system" = Darwin ]; then
    check_path --state-dir "$state" '[^A-Za-z0-9/._+ -]' ' and spaces'
  else
    check_path --state-dir "$state" '[^A-Za-z0-9/._+-]' ''
  fi
  root_dir="${DESTDIR:-}"
}

# The launchd domain of the service.
domain() {
  if [ "$scope" = system ]; then
    echo system
  elif launchctl print "gui/$(id -u)" >/dev/null 2>&1; then
    echo "gui/$(id -u)"
  else
    echo "user/$(id -u)"
  fi
}

systemd() {
  if [ "$scope" = user ]; then
    run systemctl --user "$@"
  else
    run systemctl "$@"
  fi
}

# Whether to use the machine's service manager: not for files under DESTDIR,
# nor in a container without one.
manager_runs() {
  [ -z "$root_dir" ] || return 1
  [ "$system" = Darwin ] || [ -d "${SYSTEMD_RUN:-/run/systemd/system}" ]
}

scope=""
prefix=""
state=""
user=""
dry_run=no
taken=0
