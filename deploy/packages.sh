#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs system packages: on Debian and Ubuntu with apt, on a Mac with
# Homebrew. deploy/setup.sh and deploy/observability.sh source this file; they
# define say and die, and set log, the file for the output of every step.
# shellcheck disable=SC2154  # log
set -euo pipefail

# Runs a command with its output in the log; shows the log's end if it fails.
logged() {
  printf '\n--- %s\n' "$*" >>"$log"
  if ! "$@" >>"$log" 2>&1; then
    printf 'failed: %s\n' "$*" >&2
    tail -n 25 "$log" >&2
    die "the full log is $log"
  fi
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    die "packages need root: run this as root or install sudo"
  fi
}

apt_installed() {
  dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null |
    grep -q '^installed'
}

# Debian's packages start their services, such as Prometheus on every address of
# the machine. Tests start their own: this policy, which apt consults, refuses
# while packages are installed, unless the machine already has one.
NO_SERVICES=/usr/sbin/policy-rc.d

apt_install() {
  local policy=kept
  if [ ! -e "$NO_SERVICES" ]; then
    policy=ours
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$NO_SERVICES" >/dev/null
    as_root chmod 755 "$NO_SERVICES"
    trap 'as_root rm -f "$NO_SERVICES"' EXIT
  fi
  logged as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "$@"
  if [ "$policy" = ours ]; then
    as_root rm -f "$NO_SERVICES"
    trap - EXIT
  fi
}

apt_packages() {
  local package missing=""
  for package in "$@"; do
    apt_installed "$package" || missing="$missing $package"
  done
  if [ -z "$missing" ]; then
    say "packages: all installed"
    return
  fi
  say "packages: installing$missing"
  logged as_root apt-get update -q
  # shellcheck disable=SC2086  # a list of words
  apt_install $missing
}

brew_packages() {
  local package missing="" prefix
  command -v brew >/dev/null 2>&1 ||
    die "Homebrew is missing: install it first, see its home page"
  xcode-select -p >/dev/null 2>&1 ||
    die "no compiler: run 'xcode-select --install' first"
  prefix="$(brew --prefix)"
  for package in "$@"; do
    [ -d "$prefix/opt/$package" ] || missing="$missing $package"
  done
  if [ -z "$missing" ]; then
    say "packages: all installed"
    return
  fi
  say "packages: installing$missing"
  # shellcheck disable=SC2086  # a list of words
  logged brew install --quiet $missing
}
