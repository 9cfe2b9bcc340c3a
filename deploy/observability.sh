#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up Prometheus, Alertmanager and Grafana next to a running mpsd, with the
# alerts of deploy/prometheus and the dashboards of deploy/grafana, and prints
# their addresses. All of it runs as you, in the background, only on 127.0.0.1.
# Run again, it keeps what runs, and loads changed rules and dashboards.
#
#   deploy/observability.sh [--metrics HOST:PORT]... [--grafana FOLDER]
#                           [--dir FOLDER] [--ports P,A,G]
#                           [--scrape-interval DURATION] [--stop]
#     --metrics          an mpsd to scrape, by the address of its metrics; may
#                        be repeated [from mpsctl info, else 127.0.0.1:9464]
#     --grafana          an unpacked Grafana [the installed one]
#     --dir              the folder of data, logs and settings
#                        [~/.local/state/mpsd-observability]
#     --ports            those of Prometheus, Alertmanager and Grafana
#                        [9090,9093,3000]
#     --scrape-interval  [15s]
#     --stop             stops all of it; the data are kept
#
# Installs Prometheus and Alertmanager with apt, on a Mac Prometheus and Grafana
# with Homebrew. Debian and Ubuntu do not package Grafana: without it the rest
# works, and the script reports what is missing.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
system="$(uname -s)"

say() { printf 'observability: %s\n' "$*"; }

die() {
  printf 'observability: error: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=deploy/packages.sh
. "$root/deploy/packages.sh"

usage() { sed -n '3,25s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- programs ----------------------------------------------------------------

# The first of the given names that is a program; fails if there is none.
program() {
  local name
  for name in "$@"; do
    command -v "$name" 2>/dev/null && return
  done
  return 1
}

install_missing() {
  local wanted=""
  if [ "$system" = Darwin ]; then
    program prometheus >/dev/null || brew_packages prometheus
    [ -n "$grafana" ] || program grafana >/dev/null ||
      brew_packages grafana
    return
  fi
  program curl >/dev/null || wanted=curl
  program prometheus >/dev/null || wanted="$wanted prometheus"
  program prometheus-alertmanager alertmanager >/dev/null ||
    wanted="$wanted prometheus-alertmanager"
  [ -n "$wanted" ] || return 0
  command -v apt-get >/dev/null 2>&1 ||
    die "no apt-get or brew here: install$wanted, then run this again"
  # shellcheck disable=SC2086  # a list of words
  apt_packages $wanted
}

# Sets grafana_home and grafana_program, both empty without Grafana.
find_grafana() {
  local name
  grafana_home="" grafana_program=""
  if [ -n "$grafana" ]; then
    grafana_home="$(cd "$grafana" 2>/dev/null && pwd)" ||
      die "--grafana: there is no folder $grafana"
    grafana_program="$(program "$grafana_home/bin/grafana" \
      "$grafana_home/bin/grafana-server")" ||
      die "--grafana: $grafana has no bin/grafana: name the unpacked folder"
    return
  fi
  name="$(program grafana /usr/share/grafana/bin/grafana grafana-server \
    /usr/sbin/grafana-server)" || return 0
  for grafana_home in /usr/share/grafana \
    "$(brew --prefix 2>/dev/null || true)/opt/grafana/share/grafana"; do
    if [ -d "$grafana_home/public" ]; then
      grafana_program="$name"
      return
    fi
  done
  die "$name is installed, but its folder with public/ is not where packages" \
    "put it: name the folder with --grafana"
}

# --- addresses ---------------------------------------------------------------

# A member of one line of JSON, without its quotes; empty if there is none.
json_member() {
  sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

# The address that a running mpsd of this user reports, else the default one.
find_metrics() {
  local mpsctl info
  [ -z "$metrics" ] || return 0
  metrics=127.0.0.1:9464
  mpsctl="$(program mpsctl "$root/build/release/bin/mpsctl")" || return 0
  info="$("$mpsctl" info --json 2>/dev/null)" || return 0
  metrics="$(printf '%s\n' "$info" | json_member metrics_address)"
  [ -n "$metrics" ] ||
    die "mpsd serves no metrics: start it with --metrics-address"
  [ "$(printf '%s\n' "$info" | json_member metrics_tls)" != true ] ||
    die "mpsd serves its metrics over TLS: use" \
      "deploy/prometheus/prometheus_remote.yml"
}

check_metrics() {
  local address
  for address in $metrics; do
    case "$address" in
      unix:* | /*) die "Prometheus cannot scrape the socket $address: start" \
        "mpsd with --metrics-address HOST:PORT" ;;
      *[!A-Za-z0-9.:_-]* | *:*[!0-9]* | *: | :*)
        die "--metrics '$address' is not HOST:PORT" ;;
      *:*) ;;
      *) die "--metrics '$address' is not HOST:PORT" ;;
    esac
  done
}

answers() { curl -sf --max-time 5 -o "$dir/answer" "$1"; }

# --- processes ---------------------------------------------------------------

# Whether the process that was started as $1 still runs. Another process that
# reuses its pid has another command line.
runs() {
  local pid
  pid="$(cat "$dir/$1.pid" 2>/dev/null)" && [ -n "$pid" ] || return 1
  ps -ww -o command= -p "$pid" 2>/dev/null | grep -qF "$dir/"
}

# Whether NAME runs with these settings; otherwise stops it.
runs_with() {
  if runs "$1" && [ "$(cat "$dir/$1.settings")" = "$2" ]; then
    return 0
  fi
  stop "$1"
  printf '%s\n' "$2" >"$dir/$1.settings"
  return 1
}

# start NAME PORT COMMAND...: in the background, its output in NAME.log.
start() {
  local name="$1" port="$2"
  shift 2
  ! curl -s --max-time 5 -o "$dir/answer" "http://127.0.0.1:$port/" ||
    die "something else answers on port $port: choose others with --ports"
  nohup "$@" >"$dir/$name.log" 2>&1 </dev/null &
  echo "$!" >"$dir/$name.pid"
  # It has this script's command line until it has become the program.
  until runs "$name" || ! kill -0 "$!" 2>/dev/null; do
    sleep 0.05
  done
}

# Waits until $2 answers; shows the end of the log if the process ends first.
await() {
  local tries=0
  until answers "$2"; do
    tries=$((tries + 1))
    if ! runs "$1" || [ "$tries" -gt "${MPSD_WAIT_TRIES:-240}" ]; then
      tail -n 15 "$dir/$1.log" >&2
      die "$1 does not answer; the full log is $dir/$1.log"
    fi
    sleep 0.5
  done
}

stop() {
  local tries=0
  runs "$1" || return 0
  kill "$(cat "$dir/$1.pid")"
  while runs "$1"; do
    tries=$((tries + 1))
    [ "$tries" -le 100 ] || die "$1 does not end: see $dir/$1.log"
    sleep 0.1
  done
  say "$1: stopped"
}

# --- each of the three -------------------------------------------------------

# Writes the configuration of Prometheus; the rules are next to it.
configure_prometheus() {
  local targets="" address
  for address in $metrics; do
    targets="$targets${targets:+, }'$address'"
  done
  mkdir -p "$dir/prometheus"
  cp "$root"/deploy/prometheus/mpsd_*.yml "$dir/prometheus/"
  sed -e "s/'127\.0\.0\.1:9464'/$targets/" \
    -e "s/'127\.0\.0\.1:9093'/'127.0.0.1:$alertmanager_port'/" \
    -e "s/^\(  [a-z]*_interval:\) 15s/\1 $interval/" \
    "$root/deploy/prometheus/prometheus.yml" >"$dir/prometheus/prometheus.yml"
  grep -qF "[$targets]" "$dir/prometheus/prometheus.yml" ||
    die "deploy/prometheus/prometheus.yml has no target 127.0.0.1:9464 any more"
  if program promtool >/dev/null; then
    logged promtool check config "$dir/prometheus/prometheus.yml"
  fi
}

run_prometheus() {
  configure_prometheus
  if runs_with prometheus "$prometheus_port"; then
    kill -HUP "$(cat "$dir/prometheus.pid")"
  else
    start prometheus "$prometheus_port" "$(program prometheus)" \
      --config.file="$dir/prometheus/prometheus.yml" \
      --storage.tsdb.path="$dir/prometheus/data" \
      --web.listen-address="127.0.0.1:$prometheus_port"
  fi
  await prometheus "$prometheus_url/-/ready"
  say "Prometheus: $prometheus_url (log: $dir/prometheus.log)"
}

# Until the user names receivers, alerts are only shown.
run_alertmanager() {
  local command settings="$dir/alertmanager.yml"
  if ! command="$(program prometheus-alertmanager alertmanager)"; then
    say "Alertmanager: not installed; Prometheus shows the alerts at" \
      "$prometheus_url/alerts, and sends none"
    return
  fi
  [ -e "$settings" ] ||
    printf '# For receivers see %s\nroute: {receiver: nobody}\n%s\n' \
      "$root/deploy/prometheus/alertmanager.yml" \
      "receivers: [{name: nobody}]" >"$settings"
  if runs_with alertmanager "$alertmanager_port"; then
    await alertmanager "$alertmanager_url/-/ready"
    # Answers when the settings are accepted, or with what is wrong in them.
    curl -s --fail-with-body --max-time 60 -o "$dir/answer" -X POST \
      "$alertmanager_url/-/reload" ||
      die "Alertmanager keeps its earlier settings: $(cat "$dir/answer")"
  else
    start alertmanager "$alertmanager_port" "$command" \
      --config.file="$settings" --storage.path="$dir/alertmanager" \
      --web.listen-address="127.0.0.1:$alertmanager_port" \
      --cluster.listen-address=
  fi
  await alertmanager "$alertmanager_url/-/ready"
  say "Alertmanager: $alertmanager_url (receivers of alerts: $settings)"
}

# The password of Grafana's `admin`, made once. Everyone else is a viewer.
admin_password() {
  local file="$dir/grafana/admin-password"
  if [ ! -s "$file" ]; then
    (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$file")
  fi
  cat "$file"
}

run_grafana() {
  if [ -z "$grafana_program" ]; then
    say "Grafana: NOT INSTALLED, and this system has no package of it." \
      "Install it by its manual, or unpack it and name the folder with" \
      "--grafana; then run this again. Until then: $prometheus_url/graph"
    return
  fi
  mkdir -p "$dir/grafana"
  export GF_PATHS_DATA="$dir/grafana/data" GF_PATHS_LOGS="$dir/grafana/logs"
  export GF_PATHS_PLUGINS="$dir/grafana/plugins"
  export GF_PATHS_PROVISIONING="$root/deploy/grafana/provisioning"
  export GF_SERVER_HTTP_ADDR=127.0.0.1 GF_SERVER_HTTP_PORT="$grafana_port"
  export GF_AUTH_ANONYMOUS_ENABLED=true GF_AUTH_ANONYMOUS_ORG_ROLE=Viewer
  export GF_ANALYTICS_REPORTING_ENABLED=false
  export GF_ANALYTICS_CHECK_FOR_UPDATES=false
  export GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES=false
  GF_SECURITY_ADMIN_PASSWORD="$(admin_password)"
  export GF_SECURITY_ADMIN_PASSWORD
  export MPSD_PROMETHEUS_URL="$prometheus_url"
  export MPSD_SCRAPE_INTERVAL="$interval"
  export MPSD_DASHBOARDS="$root/deploy/grafana"
  if ! runs_with grafana "$ports $interval $grafana_program"; then
    set -- --homepath "$grafana_home" --pidfile "$dir/grafana.own-pid"
    case "$grafana_program" in
      */grafana) set -- server "$@" ;;
    esac
    start grafana "$grafana_port" "$grafana_program" "$@"
  fi
  await grafana "$grafana_url/api/health"
  say "Grafana: $grafana_url/d/mpsd-overview (also /d/mpsd-job and" \
    "/d/mpsd-fleet; the password of admin: $dir/grafana/admin-password)"
}

# Reports which mpsd are reachable.
check_scrapes() {
  local address tries=0
  for address in $metrics; do
    until curl -sfG --max-time 5 "$prometheus_url/api/v1/query" \
      --data-urlencode "query=up{job=\"mpsd\",instance=\"$address\"} == 1" |
      grep -qF "$address"; do
      tries=$((tries + 1))
      if [ "$tries" -gt "${MPSD_SCRAPE_TRIES:-40}" ]; then
        say "no answer from an mpsd at $address yet: mpsctl info prints where" \
          "it serves its metrics; with a token or TLS, use" \
          "deploy/prometheus/prometheus_remote.yml"
        continue 2
      fi
      sleep 1
    done
    say "scrapes mpsd at $address"
  done
}

# --- all of it ---------------------------------------------------------------

metrics=""
grafana=""
dir=""
ports=9090,9093,3000
interval=15s
stop=no
while [ $# -gt 0 ]; do
  case "$1" in
    --metrics | --grafana | --dir | --ports | --scrape-interval)
      [ $# -ge 2 ] || die "$1 needs a value"
      case "$1" in
        --metrics) metrics="$metrics $2" ;;
        --grafana) grafana="$2" ;;
        --dir) dir="$2" ;;
        --ports) ports="$2" ;;
        --scrape-interval) interval="$2" ;;
      esac
      shift
      ;;
    --stop) stop=yes ;;
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

IFS=, read -r prometheus_port alertmanager_port grafana_port rest <<<"$ports"
for port in "$prometheus_port" "$alertmanager_port" "$grafana_port"; do
  case "$port" in
    "" | *[!0-9]*) die "--ports '$ports' is not three numbers" ;;
  esac
done
[ -z "$rest" ] || die "--ports '$ports' is not three numbers"
printf '%s\n' "$interval" | grep -Eqx '[1-9][0-9]*(ms|s|m)' ||
  die "--scrape-interval '$interval' is not a duration such as 15s"
prometheus_url="http://127.0.0.1:$prometheus_port"
alertmanager_url="http://127.0.0.1:$alertmanager_port"
grafana_url="http://127.0.0.1:$grafana_port"

if [ -z "$dir" ]; then
  [ -n "${HOME:-}" ] || die "HOME is not set: name a folder with --dir"
  dir="$HOME/.local/state/mpsd-observability"
fi
mkdir -p "$dir"
dir="$(cd "$dir" && pwd)"
chmod 700 "$dir"
log="$dir/setup.log"

if [ "$stop" = yes ]; then
  for name in grafana alertmanager prometheus; do
    stop "$name"
  done
  exit 0
fi
find_metrics
check_metrics
install_missing
find_grafana
run_prometheus
run_alertmanager
run_grafana
check_scrapes
