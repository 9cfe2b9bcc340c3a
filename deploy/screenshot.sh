#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws a page of Grafana or Prometheus into a PNG, with a headless Chromium.
#
#   deploy/screenshot.sh URL FILE [WIDTH,HEIGHT]
#
# The page needs its own time range (from=…&to=…): the browser's clock runs
# ahead while it waits for the page.
set -euo pipefail

die() {
  printf 'screenshot: error: %s\n' "$*" >&2
  exit 1
}

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
  sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi

browser=""
for name in chromium chromium-browser google-chrome \
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
  if command -v "$name" >/dev/null 2>&1; then
    browser="$name"
    break
  fi
done
[ -n "$browser" ] || die "no Chromium found"

profile="$(mktemp -d "${TMPDIR:-/tmp}/mpsd-screenshot.XXXXXX")"
trap 'rm -rf "$profile"' EXIT
set -- "$1" "$2" "${3:-1600,1200}"
# Chromium's sandbox does not work as root.
sandbox=""
[ "$(id -u)" -ne 0 ] || sandbox=--no-sandbox
rm -f "$2"
"$browser" --headless=new ${sandbox:+"$sandbox"} --disable-gpu \
  --hide-scrollbars --user-data-dir="$profile" --window-size="$3" \
  --virtual-time-budget=40000 --screenshot="$2" "$1" \
  >"$profile/output" 2>&1 &
pid=$!
# The browser waits forever for a server that does not answer.
for ((tries = 0; tries < 600; tries++)); do
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.2
done
kill "$pid" 2>/dev/null || true
wait "$pid" || true
if [ ! -s "$2" ]; then
  tail -n 5 "$profile/output" >&2
  die "no picture of $1"
fi
