# SPDX-License-Identifier: Apache-2.0
# Prints "mpsd-socket PATH" for mpsd's socket on the machine where an ssh
# session runs this: $place (the socket or its folder), else one of the usual
# places; a line on stderr says why there is none. mpsctl compiles the file in,
# the Python package contains it as data; both prepend the line place='...'.
# Braces: the shell has read all of it before the first command runs.
#
# The system's list of sockets distinguishes the socket of a running mpsd from
# one that a killed mpsd left. A folder that the account may not enter hides
# whether it contains a socket.
{
listed=$(
  cat /proc/net/unix 2>/dev/null || netstat -an -f unix 2>/dev/null)
silent= looked= refused=
use() {
  printf 'mpsd-socket %s\n' "$1"
  exit 0
}
try() {
  [ -n "$1" ] || return 0
  looked="$looked $1"
  if [ -S "$1" ] && [ -w "$1" ]; then
    case $listed in
      '' | *"$1"*) use "$1" ;;
    esac
    [ -n "$silent" ] || silent=$1
    return 0
  fi
  dir=${1%/*}
  while [ -n "$dir" ] && [ ! -d "$dir" ]; do dir=${dir%/*}; done
  if [ -S "$1" ] || { [ -n "$dir" ] && [ ! -x "$dir" ]; }; then
    refused="$refused $1"
  fi
}
# The service files are those of deploy/layout.sh; they name the state folder
# as deploy/systemd and deploy/launchd write it.
everywhere() {
  state "$MPSD_STATE_DIR"
  if [ "$(uname -s)" = Darwin ]; then
    state "$HOME/Library/Application Support/mpsd"
    plist "$HOME/Library/LaunchAgents/org.mpsd.agent.plist"
    plist /Library/LaunchDaemons/org.mpsd.daemon.plist
  else
    state "$HOME/.local/state/mpsd"
    unit "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/mpsd.service"
    unit /etc/systemd/system/mpsd.service
  fi
}
state() {
  [ -z "$1" ] || try "$1/mpsd.sock"
}
unit() {
  [ ! -r "$1" ] || state "$(
    sed -n 's/^ExecStart=.* --state-dir \([^ ]*\).*/\1/p' "$1" | head -n 1)"
}
plist() {
  [ ! -r "$1" ] || state "$(
    sed -n '/<string>--state-dir<\/string>/{n
      s/^ *<string>\(.*\)<\/string>.*/\1/p
      }' "$1" | head -n 1)"
}
if [ -n "$place" ]; then
  [ ! -d "$place" ] || place=${place%/}/mpsd.sock
  try "$place"
else
  everywhere
fi
[ -z "$silent" ] || use "$silent"
if [ -n "$refused" ]; then
  echo "mpsd: this account may not open$refused:" \
    "ask for mpsd --socket-group, or log in as mpsd's account" >&2
  exit 77
fi
echo "mpsd: no mpsd runs here: there is no socket at$looked:" \
  "start it, or name its socket: ssh://HOST/PATH/OF/mpsd.sock" >&2
exit 69
}
