#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fine-tunes a real language model with mpsd, from a bare machine to an adapter:
# sets up and builds, makes a model (SmolLM2-135M-Instruct) and a data set (the
# sentiment of short texts), starts a separate daemon, submits a job, shows it
# running, checks that the loss on held-out texts fell, and shows what the model
# answered before and after.
#
#   deploy/demo.sh [--quick] [--no-build] [--observe [--grafana FOLDER]]
#     --quick     a few seconds of training instead of a few minutes
#     --no-build  uses build/release/bin as it is
#     --observe   monitors it with Prometheus, and with Grafana if there is one
#                 (an unpacked one: --grafana), and draws the job's dashboard
#
# Everything is in build/demo: the model, data/, job.json, adapter/,
# daemon.log and the daemon's state/, made again by each run; observe.png.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bin="$root/build/release/bin"
demo="$root/build/demo"
model="$demo/SmolLM2-135M-Instruct"
python="$root/build/venv/bin/python"
daemon_log="$demo/daemon.log"
observing="$demo/observability"
daemon=""
job=""

# The eval loss must fall to this share of its initial value.
CLEAR_FALL=0.9

say() { printf 'demo: %s\n' "$*"; }

die() {
  printf 'demo: error: %s\n' "$*" >&2
  exit 1
}

usage() { sed -n '3,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- the daemon --------------------------------------------------------------

# Unix socket paths end at some 100 bytes; a deep checkout needs a short folder.
make_state_dir() {
  state="$demo/state"
  if [ "${#state}" -gt 70 ]; then
    state="$(mktemp -d /tmp/mpsd-demo.XXXXXX)"
  elif [ -d "$state" ] && "$bin/mpsctl" --state-dir "$state" info \
    >/dev/null 2>&1; then
    die "another daemon runs on $state: stop it first"
  else
    rm -rf "$state"
    mkdir -p "$state"
  fi
}

free_port() {
  "$python" -c 'import socket
with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1])'
}

ctl() { "$bin/mpsctl" --state-dir "$state" "$@"; }

start_daemon() {
  metrics="127.0.0.1:$(free_port)"
  "$bin/mpsd" --state-dir "$state" --metrics-address "$metrics" \
    --worker "$bin/mpsd-worker" >"$daemon_log" 2>&1 &
  daemon=$!
  local tries=0
  until ctl info >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || die "mpsd ended while starting"
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || die "mpsd did not answer within 20 s"
    sleep 0.2
  done
  say "mpsd runs (pid $daemon, state $state, metrics $metrics)"
}

# Stops the daemon and leaves its exit status in $status.
stop_daemon() {
  local tries=0
  status=0
  kill -TERM "$daemon" 2>/dev/null || true
  while kill -0 "$daemon" 2>/dev/null && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
  done
  kill -KILL "$daemon" 2>/dev/null || true
  wait "$daemon" || status=$?
  daemon=""
}

# However the script ends, it stops its daemon, and shows the logs of a failure.
finish() {
  local failed=$?
  trap - EXIT INT TERM
  if [ "$failed" -ne 0 ] && [ -n "$job" ] && [ -n "$daemon" ]; then
    printf '\n--- the end of the log of job %s\n' "$job" >&2
    ctl logs "$job" 2>&1 | tail -n 20 >&2 || true
  fi
  [ -z "$daemon" ] || stop_daemon
  [ "$observe" = no ] || stop_observing
  if [ "$failed" -ne 0 ] && [ -s "$daemon_log" ]; then
    printf '\n--- the end of %s\n' "$daemon_log" >&2
    tail -n 20 "$daemon_log" >&2
  fi
  case "${state:-}" in
    /tmp/mpsd-demo.*) rm -rf "$state" ;;
  esac
  exit "$failed"
}

# --- the job -----------------------------------------------------------------

# A value of the job, as mpsctl prints it; empty if there is none.
job_value() {
  ctl show "$job" --json | "$python" -c 'import json, sys
value = json.load(sys.stdin).get(sys.argv[1])
print("" if value is None else value)' "$1"
}

make_model() {
  if [ -e "$model/config.json" ]; then
    say "model: $model exists"
  else
    say "model: making $model"
    "$python" "$root/deploy/demo/make_model.py" --out "$model" >/dev/null
  fi
}

make_data() {
  # The data are made again if make_data.py has changed.
  if [ "$demo/data/train.jsonl" -nt "$root/deploy/demo/make_data.py" ]; then
    say "data: $demo/data exists"
  else
    say "data: making $demo/data"
    "$python" "$root/deploy/demo/make_data.py" --out "$demo/data" >/dev/null
  fi
}

run_job() {
  say "submitting $demo/job.json"
  submitted="$(ctl submit "$demo/job.json" --detach --json)" ||
    die "the job was not accepted"
  job="$("$python" -c 'import json, sys; print(json.loads(sys.argv[1])["id"])' \
    "$submitted")"
  ctl watch "$job" || say "mpsctl watch ended with status $?"
  job_state="$(job_value state)"
  [ "$job_state" = SUCCEEDED ] ||
    die "job $job ended $job_state: $(job_value message)"
}

# Prints how far the eval loss fell; fails if it did not fall clearly.
check_loss() {
  "$python" - "$1" "$2" "$CLEAR_FALL" <<'PYTHON'
import sys

before, after, share = map(float, sys.argv[1:])
print(f"{before:.4f} before, {after:.4f} after "
      f"({100 * (after / before - 1):+.0f} %)")
sys.exit(not after < share * before)
PYTHON
}

# A prompt, and its answers before and after training.
show_answers() {
  ctl show "$job" --json | "$python" -c 'import json, sys
job = json.load(sys.stdin)
prompt, = job["spec"]["training"]["sample_prompts"]
texts = [("prompt", prompt)] + [
    (name, sampled["completions"][0])
    for name, sampled in zip(("before", "after"), job["samples"], strict=True)]
for name, text in texts:
    print(f"demo: {name + chr(58):8}", " ".join(text.split()))'
}

report() {
  local before after loss fell=yes
  before="$(job_value eval_loss_before)"
  after="$(job_value eval_loss_after)"
  [ -n "$before" ] && [ -n "$after" ] || die "the job has no eval loss"
  loss="$(check_loss "$before" "$after")" || fell=no
  rm -rf "$demo/adapter"
  ctl download "$job" --output "$demo/adapter" >/dev/null
  [ -s "$demo/adapter/adapter_model.safetensors" ] ||
    die "no adapter_model.safetensors in $demo/adapter"
  printf '\nThe daemon'\''s metrics of this run (%s):\n' \
    "http://$metrics/metrics"
  curl -sS --max-time 10 "http://$metrics/metrics" >"$demo/metrics.txt"
  # Some 450 more are 0 or count calls.
  grep '^mpsd_' "$demo/metrics.txt" | grep -Ev '_bucket\{|^mpsd_rpc_| 0$' |
    sed 's/^/  /'
  printf '  … all of them: %s\n' "$demo/metrics.txt"
  printf '\n'
  say "job $job: $job_state"
  say "eval loss: $loss"
  say "adapter: $demo/adapter"
  show_answers
  [ "$fell" = yes ] ||
    die "the eval loss did not fall clearly (to $CLEAR_FALL of its start)"
}

# --- Prometheus and Grafana --------------------------------------------------

start_observing() {
  ports="$(free_port),$(free_port),$(free_port)"
  rm -rf "$observing"
  "$root/deploy/observability.sh" --metrics "$metrics" --dir "$observing" \
    --ports "$ports" --scrape-interval 1s ${grafana:+--grafana "$grafana"}
}

stop_observing() {
  "$root/deploy/observability.sh" --dir "$observing" --stop || true
}

# Draws the job's dashboard; without Grafana, Prometheus' graph of the loss.
draw() {
  local page from to query
  sleep 2 # the last scrapes
  to="$(date +%s)"
  from=$((submitted_at - 10))
  page="http://127.0.0.1:${ports##*,}/d/mpsd-job"
  page="$page?from=${from}000&to=${to}000&var-job_id=$job&kiosk"
  if [ ! -e "$observing/grafana.pid" ]; then
    query="%7B__name__%3D~%22mpsd_job_(eval_)%3Floss%22%7D"
    page="http://127.0.0.1:${ports%%,*}/graph?g0.expr=$query&g0.tab=0"
    page="$page&g0.range_input=$((to - from))s"
  fi
  if "$root/deploy/screenshot.sh" "$page" "$demo/observe.png" 1600,1600; then
    say "dashboard: $demo/observe.png"
  else
    say "no picture of the dashboard: $page"
  fi
}

# --- all of it ---------------------------------------------------------------

quick=no
observe=no
grafana=""
build=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=yes ;;
    --no-build) build=no ;;
    --observe) observe=yes ;;
    --grafana)
      [ $# -ge 2 ] || die "--grafana needs a folder"
      observe=yes
      grafana="$2"
      shift
      ;;
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

"$root/deploy/setup.sh" --demo
[ "$build" = no ] || "$root/deploy/build.sh" mpsd mpsctl mpsd-worker
started="$(date +%s)"
mkdir -p "$demo"
rm -f "$daemon_log"
make_model
make_data
if [ "$quick" = yes ]; then
  cp "$root/deploy/demo/quick.json" "$demo/job.json"
else
  cp "$root/deploy/demo/job.json" "$demo/job.json"
fi

trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
make_state_dir
start_daemon
[ "$observe" = no ] || start_observing
submitted_at="$(date +%s)"
run_job
[ "$observe" = no ] || draw
report
say "stopping mpsd"
stop_daemon
[ "$status" -eq 0 ] || die "mpsd exited with status $status"
say "mpsd exited with status 0"
say "done, $(($(date +%s) - started)) s after the build"
