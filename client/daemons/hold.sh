# SPDX-License-Identifier: Apache-2.0
# Runs ssh with the arguments after the first, which is a folder for its files:
# in, out, err and, when ssh exits, code. ssh ends, and the folder is removed,
# when the standard input ends, which is when the program that holds it exits.
# mpsctl compiles the file in, the Python package contains it as data.
#
# Ctrl-C does not end ssh: the program decides. The options override the
# account's configuration: an ssh -N that shares another's connection returns at
# once. Neither agent nor display is forwarded to the host.
d=$1
shift
ulimit -f 2048 # a host with endless output fills no disk
exec 3<&0 >/dev/null 2>&1
trap '' INT QUIT
(: </dev/tty) || set -- -o BatchMode=yes "$@"
"${MPSD_SSH:-ssh}" -a -x -o ControlMaster=no -o ControlPath=none \
  -o ControlPersist=no -o ExitOnForwardFailure=yes -o RemoteCommand=none \
  -o PermitLocalCommand=no -o ForkAfterAuthentication=no -o LogLevel=INFO \
  -o ConnectTimeout=15 -o ConnectionAttempts=1 -o ServerAliveInterval=15 \
  -o ServerAliveCountMax=3 "$@" <"$d/in" >"$d/out" 2>"$d/err" 3<&- &
ssh=$!
{
  read -r _ <&3
  : >"$d/end"
  kill "$ssh"
} &
watch=$!
exec 3<&-
wait "$ssh"
echo $? >"$d/code"
[ ! -e "$d/end" ] || rm -rf "$d"
kill "$watch"
