#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the mpsd that deploy/build.sh built, as a service that starts by
# itself: a LaunchDaemon or LaunchAgent on a Mac, a systemd unit elsewhere. Run
# again it brings everything up to date and restarts mpsd only if something
# changed.
#
#   deploy/install.sh [OPTION…]
#     --user               for this user alone, without root: programs in
#                          ~/.local, runs while the user is logged in
#     --system             for the machine (as root): programs in /usr/local,
#                          runs from boot on; the default for root
#     --service-user NAME  whose process mpsd is with --system [who called sudo]
#     --prefix DIR         instead of ~/.local or /usr/local
#     --state-dir DIR      instead of that user's own: the default of mpsctl
#     --build DIR          the programs' folder [build/release/bin]
#     --no-start           leave starting to you
#     --dry-run            only say what would be done
#   DESTDIR=DIR puts every file under DIR and starts nothing.
#
# mpsd's options are in mpsd.toml in the state folder, which is yours: it is
# made once and never touched again. deploy/uninstall.sh takes back the rest.
set -euo pipefail

NAME=install
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=deploy/layout.sh
. "$root/deploy/layout.sh"

usage() { sed -n '3,24s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- files -------------------------------------------------------------------

# folder MODE PATH: makes a missing folder; its parents belong to the system.
folder() {
  local path="$root_dir$2"
  [ ! -d "$path" ] || return 0
  run mkdir -p "$path"
  run chmod "$1" "$path"
}

# Like folder, but gives the folder to the user that mpsd runs as, and so the
# parents that are missing in that user's home.
own_folder() {
  [ ! -d "$root_dir$2" ] || return 0
  case "$2" in
    "$home"/*) own_folder 755 "$(dirname "$2")" ;;
  esac
  folder "$1" "$2"
  [ "$(id -u)" -ne 0 ] || run chown "$user:$group" "$root_dir$2"
}

# put MODE SOURCE PATH: copies a file and replaces PATH in one step, so that a
# running program keeps the file that it runs from.
put() {
  local path="$root_dir$3"
  if cmp -s "$2" "$path"; then
    return
  fi
  changed=yes
  say "$3"
  run cp "$2" "$path.new"
  run chmod "$1" "$path.new"
  run mv -f "$path.new" "$path"
}

# The text that `sed` puts in place of @NAME@: the value of $1, escaped for
# sed's replacement, and for XML where $2 is a plist.
value() {
  case "$2" in
    *.plist) printf '%s' "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g' ;;
    *) printf '%s' "$1" ;;
  esac | sed 's/[&|\\]/\\&/g'
}

# render TEMPLATE PATH
render() {
  local text
  text="$(mktemp)"
  sed -e "s|@PREFIX@|$(value "$prefix" "$1")|g" \
    -e "s|@STATE@|$(value "$state" "$1")|g" \
    -e "s|@LOGS@|$(value "$logs" "$1")|g" \
    -e "s|@USER@|$(value "$user" "$1")|g" \
    -e "s|@GROUP@|$(value "$group" "$1")|g" \
    -e "s|@HOME@|$(value "$home" "$1")|g" \
    -e "s|@LABEL@|$label|g" "$root/deploy/$1" >"$text"
  put 644 "$text" "$2"
  rm -f "$text"
}

# The libraries of torch's wheel that the worker is linked to.
torch_libraries() {
  local packages library
  if [ "$system" = Darwin ]; then
    for packages in "$root"/build/venv/lib/python3*/site-packages; do
      for library in torch_cpu c10 omp; do
        printf '%s\n' "$packages/torch/lib/lib$library.dylib"
      done
    done
  else
    ldd "$build/mpsd-worker" |
      sed -n 's|.* => \(/.*/site-packages/.*\) (0x[0-9a-f]*)$|\1|p'
  fi
}

programs() {
  local program library
  for program in $PROGRAMS; do
    [ -x "$build/$program" ] ||
      die "no $build/$program: run deploy/setup.sh and deploy/build.sh first"
  done
  folder 755 "$prefix/bin"
  for program in $PROGRAMS; do
    put 755 "$build/$program" "$prefix/bin/$program"
  done
  # CUDA's libraries take gigabytes; the worker finds them where it was built.
  if ls "$root"/build/venv/nvidia-gpu-* >/dev/null 2>&1; then
    say "torch with CUDA stays in $root/build/venv: keep that folder"
    return
  fi
  folder 755 "$prefix/lib/mpsd"
  while IFS= read -r library; do
    put 644 "$library" "$prefix/lib/mpsd/$(basename "$library")"
  done < <(torch_libraries)
}

configuration() {
  own_folder 700 "$state"
  [ ! -e "$root_dir$state/mpsd.toml" ] || return 0
  say "$state/mpsd.toml"
  [ "$dry_run" = no ] || return 0
  cat >"$root_dir$state/mpsd.toml" <<'TOML'
# What mpsd --help lists, without the dashes. After a change send mpsd SIGHUP
# (systemctl reload, launchctl kill HUP); its log names what wants a restart.
# metrics-address = "127.0.0.1:9464"
# A port is open to everybody who reaches it, on 127.0.0.1 to every account of
# the machine; jobs then read the roots and the Hugging Face cache alone.
# listen = ["127.0.0.1:7433"]
# insecure-listen = true
# model-root = ["/srv/models"]
# data-root = ["/srv/data"]
# The service kills what is left after 150 seconds.
# stop-grace-seconds = 120
# Of mpsd and its workers; a table is the end of the file.
# [environment]
# HF_HOME = "/srv/huggingface"
# HF_HUB_OFFLINE = "1"
TOML
  chmod 600 "$root_dir$state/mpsd.toml"
  [ "$(id -u)" -ne 0 ] || chown "$user:$group" "$root_dir$state/mpsd.toml"
}

service_files() {
  folder 755 "$(dirname "$service")"
  if [ "$system" = Darwin ]; then
    own_folder 755 "$logs"
    render "launchd/$label.plist" "$service"
    if [ -n "$rotation" ]; then
      folder 755 "$(dirname "$rotation")"
      render launchd/newsyslog.conf "$rotation"
    fi
  elif [ "$scope" = user ]; then
    render systemd/mpsd.user.service "$service"
  else
    render systemd/mpsd.service "$service"
  fi
}

# --- the service -------------------------------------------------------------

# launchctl bootout returns before the service has ended.
await_end() {
  local tries=0
  while [ "$dry_run" = no ] && [ "$tries" -lt 180 ] &&
    launchctl print "$1/$label" >/dev/null 2>&1; do
    tries=$((tries + 1))
    sleep 1
  done
}

start_launchd() {
  local target
  target="$(domain)"
  if launchctl print "$target/$label" >/dev/null 2>&1; then
    [ "$changed" = yes ] || return 0
    say "stopping mpsd: a running job writes a checkpoint first"
    run launchctl bootout "$target/$label" || true
    await_end "$target"
  fi
  run launchctl enable "$target/$label"
  run launchctl bootstrap "$target" "$service"
}

start_systemd() {
  systemd daemon-reload
  systemd enable --quiet "$label"
  if [ "$changed" = yes ]; then
    systemd restart "$label"
  else
    systemd start "$label"
  fi
}

start() {
  if ! manager_runs; then
    say "nothing is started here"
  elif [ "$system" = Darwin ]; then
    start_launchd
  else
    start_systemd
    [ "$scope" = system ] ||
      say "to run while you are logged out too: loginctl enable-linger $user"
  fi
}

# --- all of it ---------------------------------------------------------------

build="$root/build/release/bin"
starts=yes
changed=no
while [ $# -gt 0 ]; do
  case "$1" in
    --build)
      [ $# -ge 2 ] || die "--build needs a value"
      build="$2"
      shift 2
      ;;
    --no-start)
      starts=no
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

umask 022
find_layout
if [ "$scope" = system ] && [ "$(id -u)" -ne 0 ] && [ "$dry_run" = no ] &&
  [ -z "$root_dir" ]; then
  die "--system needs root: use sudo, or --user"
fi
programs
configuration
service_files
[ "$starts" = no ] || start
[ "$changed" = yes ] || say "everything was up to date"
case "$state" in
  "$home/.local/state/mpsd" | "$home/Library/Application Support/mpsd") ;;
  *) say "for mpsctl: export MPSD_STATE_DIR='$state'" ;;
esac
say "mpsd's log: $state/log/mpsd.log"
