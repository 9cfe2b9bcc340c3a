// SPDX-License-Identifier: Apache-2.0
#include "server/config_changes.h"

namespace mpsd {
namespace {

using jobs::PausePolicy;

template <auto kMember>
bool Same(const Config& a, const Config& b) {
  return a.*kMember == b.*kMember;
}
template <auto kMember>
bool SamePause(const Config& a, const Config& b) {
  return a.pause.*kMember == b.pause.*kMember;
}

struct Row {
  const char* name;
  bool (*same)(const Config& a, const Config& b);
  bool live = false;
};

constexpr Row kRows[] = {
    {"state-dir", Same<&Config::state_dir>},
    {"worker", Same<&Config::worker>},
    {"skip-selftest", Same<&Config::skip_selftest>},
    {"listen", Same<&Config::listen>},
    {"insecure-listen", Same<&Config::insecure_listen>},
    {"metrics-address", Same<&Config::metrics_address>},
    {"device-lock", Same<&Config::device_lock>},
    {"model-root", Same<&Config::model_roots>},
    {"data-root", Same<&Config::data_roots>},
    {"environment", Same<&Config::environment>},
    {"min-free-bytes", Same<&Config::min_free_bytes>},
    {"blob-grace-seconds", Same<&Config::blob_grace>},
    {"log-level", Same<&Config::log_level>, true},
    {"log-max-bytes", Same<&Config::log_max_bytes>},
    {"log-files", Same<&Config::log_files>},
    {"log-stderr", Same<&Config::log_stderr>},
    {"hang-timeout-seconds", Same<&Config::hang_timeout>},
    {"stop-grace-seconds", Same<&Config::stop_grace>},
    {"retry-backoff-seconds", Same<&Config::retry_backoff>},
    {"retry-backoff-max-seconds", Same<&Config::retry_backoff_max>},
    {"metrics-linger-seconds", Same<&Config::metrics_linger>},
    {"watchdog-seconds", Same<&Config::watchdog>},
    {"max-failures", Same<&Config::max_failures>},
    {"max-interruptions", Same<&Config::max_interruptions>},
    {"pause-on-battery", SamePause<&PausePolicy::on_battery>, true},
    {"pause-on-thermal", SamePause<&PausePolicy::thermal>, true},
    {"pause-on-memory-pressure", SamePause<&PausePolicy::memory_pressure>,
     true},
    {"quiet-hours", SamePause<&PausePolicy::quiet_hours>, true},
    {"idle-only-seconds", SamePause<&PausePolicy::idle_only>, true},
    {"pause-hold-seconds", SamePause<&PausePolicy::hold_limit>, true},
    {"pause-settle-seconds", SamePause<&PausePolicy::settle>, true},
    {"host-interval-seconds", Same<&Config::host_interval>},
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
  return running;
}

}  // namespace mpsd
