#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests what only a Mac can show, in one command: sets up, builds, compares the
# device's kernels and whole models with the CPU, trains, resumes, and monitors
# the memory. Continues after a failure, and writes one file to send back:
# build/accept/report.md.
#
#   deploy/accept-on-mac.sh [OPTION…]
#     --device D  mps, cuda or cpu [mps]
#     --service   also installs mpsd as this user's service, trains through it,
#                 and removes it: whether launchd's jobs reach the GPU
#     --quick     tiny models and fewer steps: tests the command itself
#     --no-build  uses build/release/bin as it is
#
# About 20 minutes the first time, most of it the build. Nothing is installed
# outside the checkout except deploy/setup.sh's Homebrew packages.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bin="$root/build/release/bin"
out="$root/build/accept"
python="$root/build/venv/bin/python"
report="$out/report.md"
device=mps
quick=no
build=yes
service=no
failed=""

say() { printf 'accept: %s\n' "$*"; }

die() {
  printf 'accept: error: %s\n' "$*" >&2
  exit 1
}

usage() { sed -n '3,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- the report --------------------------------------------------------------

# The output of a command as a section of the report.
section() {
  {
    printf '\n## %s\n\n```\n' "$1"
    # Hides paths of this machine; a report is short.
    tail -n "${3:-60}" "$2" | sed "s|$root|.|g; s|$HOME|~|g"
    printf '```\n'
  } >>"$report"
}

# stage NAME COMMAND…: runs it, reports and records the result, and leaves its
# exit status in $status. Not to be called in a condition: there, bash would let
# the command continue after an error.
stage() {
  local name="$1" started verdict=passed
  shift
  say "$name …"
  started="$(date +%s)"
  set +e
  (
    set -e
    "$@"
  ) >"$out/$name.log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    verdict="FAILED (exit status $status)"
    failed="$failed $name"
  fi
  say "$name: $verdict, $(($(date +%s) - started)) s"
  section "$name: $verdict, $(($(date +%s) - started)) s" "$out/$name.log"
}

# Prints a command and its output, or that this machine lacks the command.
fact() {
  printf '%s: %s\n' "$*" "$("$@" 2>&1 | head -n 3 || true)"
}

facts() {
  fact git -C "$root" rev-parse HEAD
  fact uname -srm
  if [ "$(uname -s)" = Darwin ]; then
    fact sw_vers -productVersion
    fact sw_vers -buildVersion
    for name in hw.model machdep.cpu.brand_string hw.memsize hw.ncpu \
      iogpu.wired_limit_mb kern.memorystatus_vm_pressure_level vm.swapusage; do
      fact sysctl -n "$name"
    done
    fact pmset -g batt
    fact c++ --version
    for name in grpc protobuf abseil spdlog sqlitecpp prometheus-cpp \
      openssl@3 pcre2 libpng jpeg-turbo webp cmake; do
      fact brew list --versions "$name"
    done
  else
    fact c++ --version
    fact nproc
  fi
}

# --- the tests ---------------------------------------------------------------

set_up() {
  "$root/deploy/setup.sh" --tests
  "$root/deploy/build.sh" --tests mpsd mpsctl mpsd-worker parity_probe
}

versions() {
  "$bin/mpsd" --version
  "$bin/mpsctl" --version
  "$bin/mpsd-worker" --version
}

selftest() {
  "$bin/mpsd-worker" --selftest --device "$device" --force \
    --verdict "$out/verdict.json"
}

# The golden cases in fp32. Metal sums in another order than the CPU, and twenty
# steps of training amplify that.
parity() {
  local tensor=1e-4 losses=1e-3
  if [ "$device" = cpu ]; then
    tensor=1e-5 losses=1e-4
  fi
  "$python" -B "$root/tests/tools/device_parity.py" "$bin/parity_probe" \
    --device "$device" --tensor "$tensor" --losses "$losses"
}

demo() {
  if [ "$quick" = yes ]; then
    "$root/deploy/demo.sh" --no-build --quick
  else
    "$root/deploy/demo.sh" --no-build
  fi
}

# job NAME: deploy/accept/NAME.json for the device, in build/accept; the tiny
# model of the golden files with --quick.
job() {
  "$python" -B - "$root/deploy/accept/$1.json" "$out/$1.json" "$device" \
    "$quick" "$root" <<'PYTHON'
import json
import pathlib
import sys

source, target, device, quick, root = sys.argv[1:]
job = json.loads(pathlib.Path(source).read_text())
job["device"] = device
if quick == "yes":
    job["model"] = f"{root}/tests/golden/smollm/model"
    job["training"]["max_length"] = 48
    rows = [{"text": " ".join(["hello world"] * (1 + n % 5))}
            for n in range(40)]
    data = pathlib.Path(target).with_name("tiny.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    job["dataset"] = {"train": [str(data)]}
pathlib.Path(target).write_text(json.dumps(job, indent=1))
PYTHON
}

train() {
  "$bin/mpsd-worker" --job "$out/$1.json" --out "$2" | tail -n 12
  "$python" -B - "$2/run.json" "$device" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    run = json.load(file)
print(json.dumps({k: v for k, v in run.items() if k not in ("spec", "job")},
                 indent=1)[:3000])
if sys.argv[2] not in json.dumps(run.get("device")):
    sys.exit(f"trained on {run.get('device')}, not on {sys.argv[2]}")
PYTHON
}

# A run that resumes from its middle produces the same bytes. On a GPU the bytes
# may differ; then the report shows by how much.
resume() {
  job resume
  rm -rf "$out/whole" "$out/resumed"
  train resume "$out/whole"
  mkdir -p "$out/resumed/checkpoints"
  cp -R "$out/whole/checkpoints/step-4" "$out/resumed/checkpoints/"
  "$bin/mpsd-worker" --job "$out/resume.json" --out "$out/resumed" | tail -n 3
  grep -A 1 '"resumed_at_steps": \[' "$out/resumed/run.json" | grep 4 ||
    die "the second run did not resume at step 4"
  if cmp "$out/whole/adapter/adapter_model.safetensors" \
    "$out/resumed/adapter/adapter_model.safetensors"; then
    echo "the resumed run's adapter has the same bytes"
    return
  fi
  tail -n 2 "$out/whole/metrics.jsonl" "$out/resumed/metrics.jsonl"
  return 1
}

plateau() {
  job plateau
  rm -rf "$out/plateau"
  train plateau "$out/plateau"
  "$python" -B "$root/tests/tools/memory_plateau.py" \
    "$out/plateau/metrics.jsonl"
  head -n 3 "$out/plateau/metrics.jsonl"
  tail -n 2 "$out/plateau/metrics.jsonl"
}

take_back() {
  "$root/deploy/uninstall.sh" --user --prefix "$out/service" \
    --state-dir "$MPSD_STATE_DIR" --purge
}

# Runs the short job in an mpsd started by the system's service manager.
service() {
  local file tries=0 id
  for file in "$HOME/Library/LaunchAgents/org.mpsd.agent.plist" \
    "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/mpsd.service"; do
    [ ! -e "$file" ] || die "mpsd is installed here already: $file"
  done
  # A socket's path must be short.
  MPSD_STATE_DIR="$(mktemp -d /tmp/mpsd-accept.XXXXXX)"
  export MPSD_STATE_DIR
  trap take_back EXIT
  echo 'metrics-address = "off"' >"$MPSD_STATE_DIR/mpsd.toml"
  "$root/deploy/install.sh" --user --prefix "$out/service" \
    --state-dir "$MPSD_STATE_DIR"
  until "$bin/mpsctl" info; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || die "the service did not answer within 20 s"
    sleep 0.2
  done
  job resume
  id="$("$bin/mpsctl" submit "$out/resume.json" --detach --json |
    sed -n 's/.*"id": *"\([0-9A-Z]*\)".*/\1/p')"
  "$bin/mpsctl" watch "$id"
  cat "$MPSD_STATE_DIR/log/mpsd.log"
}

# --- all of it ---------------------------------------------------------------

while [ $# -gt 0 ]; do
  case "$1" in
    --device)
      [ $# -ge 2 ] || die "--device needs a value"
      device="$2"
      shift
      ;;
    --quick) quick=yes ;;
    --no-build) build=no ;;
    --service) service=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      die "unknown argument '$1'"
      ;;
  esac
  shift
done
case "$device" in
  mps) [ "$(uname -s)" = Darwin ] ||
    die "mps needs a Mac: use --device cpu or cuda here" ;;
  cpu | cuda) ;;
  *) die "--device is mps, cuda or cpu, not '$device'" ;;
esac

# Keeps the Mac awake, which would sleep without user input.
! command -v caffeinate >/dev/null 2>&1 || caffeinate -i -w $$ &

mkdir -p "$out"
rm -f "$report" "$out"/*.log
printf '# mpsd on %s, %s\n' "$device" "$(date -u +%Y-%m-%dT%H:%MZ)" >"$report"
facts >"$out/facts.log" 2>&1
section "The machine" "$out/facts.log"
status=0
[ "$build" = no ] || stage set-up set_up
if [ "$status" -eq 0 ]; then
  for name in versions selftest parity demo resume plateau; do
    stage "$name" "$name"
  done
  [ "$service" = no ] || stage service service
fi
if [ -z "$failed" ]; then
  verdict="all passed"
else
  verdict="FAILED:$failed"
fi
printf '\n## In short\n\n%s\n' "$verdict" >>"$report"
say "$verdict"
say "please send back $report (and the folder build/accept if it failed)"
[ -z "$failed" ]
