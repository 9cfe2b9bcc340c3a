# SPDX-License-Identifier: Apache-2.0
# Finds mpsd's socket on the machine where an ssh session runs this: the socket
# or folder $place, else the places where mpsd may have its socket. mpsctl
# compiles the file in, the Python package has it as data; both put the line
# place='...' before it. Braces: the shell has read all of it before the first
# command runs.
#
# `exec cat` waits for the end of the standard input, which is the end of the
# client. The system's list of sockets tells the socket of a living mpsd from
# one that a killed mpsd left. A folder that the account may not enter hides
# whether a socket is there.
{
listed=$(
  cat /proc/net/unix 2>/dev/null || netstat -an -f unix 2>/dev/null)
silent=
use() {
  printf 'mpsd-socket %s\n' "$1"
  exec cat >/dev/null
}
try() {
  [ -n "$1" ] || return 0
  printf 'mpsd-looked %s\n' "$1"
  if [ -S "$1" ] && [ -w "$1" ]; then
    case $listed in
      '') use "$1" ;;
      *"$1"*)
        echo mpsd-listens
        use "$1"
        ;;
    esac
    [ -n "$silent" ] || silent=$1
    return 0
  fi
  dir=${1%/*}
  while [ -n "$dir" ] && [ ! -d "$dir" ]; do dir=${dir%/*}; done
  if [ -S "$1" ] || { [ -n "$dir" ] && [ ! -x "$dir" ]; }; then
    printf 'mpsd-refused %s\n' "$1"
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
echo mpsd-none
exit 0
}
