// SPDX-License-Identifier: Apache-2.0
#include "server/config_changes.h"

namespace mpsd {
namespace {

using jobs::PausePolicy;
using NotifySettings = notify::Settings;

template <auto kMember>
bool IsSame(const Config& a, const Config& b) {
  return a.*kMember == b.*kMember;
}
template <auto kMember>
bool SamePause(const Config& a, const Config& b) {
  return a.pause.*kMember == b.pause.*kMember;
}

template <auto kMember>
bool SameNotify(const Config& a, const Config& b) {
  return a.notify.*kMember == b.notify.*kMember;
}

struct Row {
  const char* name;
  bool (*same)(const Config& a, const Config& b);
  bool live = false;
};

constexpr Row kRows[] = {
    {"state-dir", IsSame<&Config::state_dir>},
    {"worker", IsSame<&Config::worker>},
    {"skip-selftest", IsSame<&Config::skip_selftest>},
    {"listen", IsSame<&Config::listen>},
    {"insecure-listen", IsSame<&Config::insecure_listen>},
    {"http-listen", IsSame<&Config::http_listen>},
    {"metrics-address", IsSame<&Config::metrics_address>},
    {"metrics-tls-cert", IsSame<&Config::metrics_tls_cert>},
    {"metrics-tls-key", IsSame<&Config::metrics_tls_key>},
    {"metrics-token-file", IsSame<&Config::metrics_token_file>},
    {"device-lock", IsSame<&Config::device_lock>},
    {"model-root", IsSame<&Config::model_roots>},
    {"data-root", IsSame<&Config::data_roots>},
    {"environment", IsSame<&Config::environment>},
    {"min-free-bytes", IsSame<&Config::min_free_bytes>},
    {"blob-grace-seconds", IsSame<&Config::blob_grace>},
    {"log-level", IsSame<&Config::log_level>, true},
    {"log-max-bytes", IsSame<&Config::log_max_bytes>},
    {"log-files", IsSame<&Config::log_files>},
    {"log-stderr", IsSame<&Config::log_stderr>},
    {"hang-timeout-seconds", IsSame<&Config::hang_timeout>},
    {"stop-grace-seconds", IsSame<&Config::stop_grace>},
    {"retry-backoff-seconds", IsSame<&Config::retry_backoff>},
    {"retry-backoff-max-seconds", IsSame<&Config::retry_backoff_max>},
    {"metrics-linger-seconds", IsSame<&Config::metrics_linger>},
    {"watchdog-seconds", IsSame<&Config::watchdog>},
    {"max-failures", IsSame<&Config::max_failures>},
    {"max-interruptions", IsSame<&Config::max_interruptions>},
    {"pause-on-battery", SamePause<&PausePolicy::on_battery>, true},
    {"pause-on-thermal", SamePause<&PausePolicy::thermal>, true},
    {"pause-on-memory-pressure", SamePause<&PausePolicy::memory_pressure>,
     true},
    {"quiet-hours", SamePause<&PausePolicy::quiet_hours>, true},
    {"idle-only-seconds", SamePause<&PausePolicy::idle_only>, true},
    {"pause-hold-seconds", SamePause<&PausePolicy::hold_limit>, true},
    {"pause-settle-seconds", SamePause<&PausePolicy::settle>, true},
    {"host-interval-seconds", IsSame<&Config::host_interval>},
    {"notify-on", SameNotify<&NotifySettings::topics>, true},
    {"notify-webhook", SameNotify<&NotifySettings::webhook>, true},
    // The key that the file holds.
    {"notify-webhook-secret-file", SameNotify<&NotifySettings::webhook_secret>,
     true},
    {"notify-webhook-ca-file", SameNotify<&NotifySettings::webhook_ca_file>,
     true},
    {"notify-command", SameNotify<&NotifySettings::command>, true},
    {"notify-desktop", SameNotify<&NotifySettings::desktop>, true},
    {"notify-low-disk-bytes", SameNotify<&NotifySettings::low_disk_bytes>,
     true},
    {"notify-settle-seconds", SameNotify<&NotifySettings::settle>, true},
};

}  // namespace

ConfigChanges CompareConfigs(const Config& before, const Config& after) {
  ConfigChanges changes;
  for (const Row& row : kRows) {
    if (row.same(before, after)) continue;
    (row.live ? changes.live : changes.restart).push_back(row.name);
  }
  return changes;
}

std::vector<ConfigKey> ConfigKeys() {
  std::vector<ConfigKey> keys;
  for (const Row& row : kRows) keys.push_back({row.name, row.live});
  return keys;
}

Config WithLiveKeys(Config running, const Config& next) {
  running.log_level = next.log_level;
  running.pause = next.pause;
  running.notify = next.notify;
  return running;
}

}  // namespace mpsd
