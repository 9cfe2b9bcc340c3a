#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the mpsd that deploy/build.sh built, as a service that starts by
# itself: a LaunchDaemon or LaunchAgent on a Mac, a systemd unit elsewhere. Run
# again it brings everything up to date and restarts mpsd only if something
# changed.
#
#   deploy/install.sh [OPTION…]
#     --user               for this user only, without root: programs in
#                          ~/.local, runs while the user is logged in
#     --system             for the machine (as root): programs in /usr/local,
#                          runs from boot on; the default for root
#     --service-user NAME  the user that runs mpsd with --system [a separate
#                          account, created if missing, so that jobs run as no
#                          person: mpsd, on a Mac _mpsd; later the user that
#                          the service has]
#     --prefix DIR         instead of ~/.local or /usr/local
#     --state-dir DIR      instead of that user's own, the default of mpsctl
#     --build DIR          the programs' folder [build/release/bin]
#     --listen HOST:PORT   let mpsd listen there, as on 0.0.0.0:7433: writes it
#                          into mpsd.toml, and makes missing certificates
#     --no-start           leave starting to you
#     --dry-run            only print what would be done
#   DESTDIR=DIR puts every file under DIR and starts nothing.
#
# mpsd's options are in mpsd.toml in the state folder, which is yours: it is
# made once and never touched again. deploy/uninstall.sh removes the rest.
set -euo pipefail

NAME=install
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=deploy/layout.sh
. "$root/deploy/layout.sh"

usage() { sed -n '3,29s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- the account -------------------------------------------------------------

# A number that neither a user nor a group has. macOS shows users above 500 at
# login.
free_number() {
  local number taken
  taken=" $({
    dscl . -list /Users UniqueID
    dscl . -list /Groups PrimaryGroupID
  } | awk '{print $NF}' | tr '\n' ' ') "
  for number in $(seq 300 399); do
    case "$taken" in
      *" $number "*) ;;
      *)
        echo "$number"
        return
        ;;
    esac
  done
  die "no number between 300 and 399 is free for an account:" \
    "name a user with --service-user"
}

make_mac_account() {
  local number
  number="$(free_number)"
  run dscl . -create "/Groups/$user"
  run dscl . -create "/Groups/$user" PrimaryGroupID "$number"
  run dscl . -create "/Groups/$user" Password '*'
  run dscl . -create "/Users/$user"
  run dscl . -create "/Users/$user" UniqueID "$number"
  run dscl . -create "/Users/$user" PrimaryGroupID "$number"
  run dscl . -create "/Users/$user" RealName mpsd
  run dscl . -create "/Users/$user" NFSHomeDirectory "$home"
  run dscl . -create "/Users/$user" UserShell /usr/bin/false
  run dscl . -create "/Users/$user" Password '*'
  run dscl . -create "/Users/$user" IsHidden 1
}

# The account has no login. Its group may use the socket, and the user who
# called sudo is in it from the next login on.
account() {
  [ "$account" = yes ] && [ -z "$root_dir" ] || return 0
  has_account "$user" && return 0
  say "creating the account $user, which runs the jobs"
  if [ "$system" = Darwin ]; then
    make_mac_account
    [ -z "${SUDO_USER:-}" ] ||
      run dseditgroup -o edit -a "$SUDO_USER" -t user "$user"
  else
    run useradd --system --user-group --home-dir "$home" --no-create-home \
      --shell /usr/sbin/nologin "$user"
    [ -z "${SUDO_USER:-}" ] || run usermod -aG "$user" "$SUDO_USER"
  fi
}

# Gives a file or folder to the user that mpsd runs as.
give() {
  [ "$(id -u)" -eq 0 ] && has_account "$user" || return 0
  run chown "$@"
}

# --- files -------------------------------------------------------------------

# folder MODE PATH: makes a missing folder; its parents belong to the system.
folder() {
  local path="$root_dir$2"
  [ ! -d "$path" ] || return 0
  run mkdir -p "$path"
  run chmod "$1" "$path"
}

# Like folder, but gives the folder, and missing parents in the home of the user
# that mpsd runs as, to that user.
own_folder() {
  [ ! -d "$root_dir$2" ] || return 0
  case "$2" in
    "$home"/*) own_folder 755 "$(dirname "$2")" ;;
  esac
  folder "$1" "$2"
  give "$user:$group" "$root_dir$2"
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
# sed's replacement, and for XML if $2 is a plist.
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

# Without them only root could use mpsd: its account is no person's.
group_options() {
  [ "$account" = yes ] || return 0
  printf '# Members of the group use the socket, each under their own name.\n'
  printf 'socket-group = "%s"\n' "$group"
  [ -z "${SUDO_USER:-}" ] || printf 'admin = ["%s"]\n' "$SUDO_USER"
}

configuration() {
  # The group of the service's account has access through it to the socket.
  if [ "$account" = yes ]; then
    own_folder 710 "$state"
  else
    own_folder 700 "$state"
  fi
  [ ! -e "$root_dir$state/mpsd.toml" ] || return 0
  say "$state/mpsd.toml"
  [ "$dry_run" = no ] || return 0
  group_options >"$root_dir$state/mpsd.toml"
  cat >>"$root_dir$state/mpsd.toml" <<'TOML'
# The options of mpsd --help, without the dashes. After a change restart mpsd;
# the running job resumes. New certificates and tokens only need a SIGHUP.
# metrics-address = "127.0.0.1:9464"
# Over TLS, for users with a token (mpsctl admin token create); mpsd tls init
# makes the certificates. Jobs then only read the roots and the Hugging Face
# cache.
# listen = ["0.0.0.0:7433"]
# model-root = ["/srv/models"]
# data-root = ["/srv/data"]
# The service kills remaining processes after 150 seconds.
# stop-grace-seconds = 120
# For mpsd and its workers; a table must be at the end of the file.
# [environment]
# HF_HOME = "/srv/huggingface"
# HF_HUB_OFFLINE = "1"
TOML
  chmod 600 "$root_dir$state/mpsd.toml"
  give "$user:$group" "$root_dir$state/mpsd.toml"
}

# --- a port ------------------------------------------------------------------

# Whether mpsd.toml sets the option $1.
configured() {
  grep -q "^[[:space:]]*$1[[:space:]]*=" "$root_dir$state/mpsd.toml" 2>/dev/null
}

# Refuses values that mpsd.toml cannot hold, or sets differently.
check_listen() {
  local port="${listen##*:}"
  case "$listen" in
    *[!][A-Za-z0-9.:_-]* | :*) port=none ;;
    *:*) ;;
    *) port=none ;;
  esac
  case "$port" in
    '' | *[!0-9]*)
      die "--listen '$listen': expected HOST:PORT, such as 0.0.0.0:7433"
      ;;
  esac
  if configured listen &&
    ! grep -qF "listen = [\"$listen\"]" "$root_dir$state/mpsd.toml"; then
    die "$state/mpsd.toml already says where mpsd listens: change it there"
  fi
}

# Writes --listen into mpsd.toml: as its first line, since it may end with a
# table.
listening() {
  local toml="$root_dir$state/mpsd.toml"
  [ -n "$listen" ] || return 0
  if ! configured listen; then
    changed=yes
    say "$state/mpsd.toml: listen = [\"$listen\"]"
    if [ "$dry_run" = no ]; then
      cp -p "$toml" "$toml.new" # for its mode and owner
      {
        printf 'listen = ["%s"]\n' "$listen"
        cat "$toml"
      } >"$toml.new"
      mv -f "$toml.new" "$toml"
    fi
  fi
}

# Makes certificates for the machine's names, on a Mac including the one on the
# local network, which may differ from the host name.
certificates() {
  local bonjour=""
  case "$listen" in
    '' | localhost:* | 127.* | '[::1]:'*) return 0 ;;
  esac
  ! configured tls-cert || return 0
  if [ -n "$root_dir" ]; then
    say "no certificates under DESTDIR: on the machine run mpsd tls init"
    return 0
  fi
  [ ! -e "$state/tls/server.crt" ] || return 0
  [ "$system" != Darwin ] ||
    bonjour="$(scutil --get LocalHostName 2>/dev/null || true)"
  set -- "$prefix/bin/mpsd" tls init --state-dir "$state"
  [ -z "$bonjour" ] || set -- "$@" --name "$bonjour.local"
  say "$state/tls"
  if [ "$dry_run" = yes ]; then
    run "$@"
  else
    "$@" >/dev/null || die "mpsd tls init failed"
    [ ! -d "$state/tls" ] || give -R "$user:$group" "$state/tls"
  fi
}

# What users of the port need, as commands to copy.
say_how_to_reach() {
  local ctl="mpsctl" shown
  [ -n "$listen" ] && [ -e "$root_dir$state/tls/server.crt" ] || return 0
  [ "$dry_run" = no ] || return 0
  shown="$("$root_dir$prefix/bin/mpsd" tls show --state-dir "$root_dir$state")"
  say "laptops know this machine by one of these names, and its fingerprint:"
  printf '%s\n' "$shown"
  if [ "$scope" = system ]; then
    ctl="sudo $ctl --state-dir '$state'"
  fi
  say "for each person: $ctl admin token create --user NAME --role user" \
    "--expires 90d"
  say "on the laptop: mpsctl login ONE-OF-THE-NAMES:${listen##*:}" \
    "--fingerprint $(printf '%s\n' "$shown" |
      sed -n 's/^ *fingerprint *//p')"
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
    # The unit lets hf write there, if it exists when mpsd starts.
    [ ! -d "$root_dir$home" ] || own_folder 700 "$home/.cache/huggingface"
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
      say "to also run while you are logged out: loginctl enable-linger $user"
  fi
}

# --- all of it ---------------------------------------------------------------

build="$root/build/release/bin"
listen=""
starts=yes
changed=no
while [ $# -gt 0 ]; do
  case "$1" in
    --build)
      [ $# -ge 2 ] || die "--build needs a value"
      build="$2"
      shift 2
      ;;
    --listen)
      [ $# -ge 2 ] || die "--listen needs a value"
      listen="$2"
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
[ -z "$listen" ] || check_listen
account
programs
configuration
listening
certificates
service_files
[ "$starts" = no ] || start
[ "$changed" = yes ] || say "everything was up to date"
case "$state" in
  "$home/.local/state/mpsd" | "$home/Library/Application Support/mpsd") ;;
  *) say "for mpsctl: export MPSD_STATE_DIR='$state'" ;;
esac
say "mpsd's log: $state/log/mpsd.log"
say_how_to_reach
