// SPDX-License-Identifier: Apache-2.0
#include "server/config_changes.h"

namespace mpsd {
namespace {

using jobs::PausePolicy;
using jobs::PreemptionPolicy;
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
bool SamePreemption(const Config& a, const Config& b) {
  return a.preemption.*kMember == b.preemption.*kMember;
}

template <auto kMember>
bool SameHub(const Config& a, const Config& b) {
  return a.hub.*kMember == b.hub.*kMember;
}

template <auto kMember>
bool SameNotify(const Config& a, const Config& b) {
  return a.notify.*kMember == b.notify.*kMember;
}

// What the options --limit-KEY and the tables [user.NAME] say of one limit.
template <auto... kMembers>
bool SameLimit(const Config& a, const Config& b) {
  return ((a.user_limits.others.*kMembers == b.user_limits.others.*kMembers) &&
          ...);
}

template <auto kMember>
bool SameKeep(const Config& a, const Config& b) {
  return a.user_limits.others.keep.*kMember ==
         b.user_limits.others.keep.*kMember;
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
    {"tls-cert", IsSame<&Config::tls_cert>},
    {"tls-key", IsSame<&Config::tls_key>},
    {"socket-group", IsSame<&Config::socket_group>},
    {"admin", IsSame<&Config::admins>},
    {"viewer", IsSame<&Config::viewers>},
    {"http-listen", IsSame<&Config::http_listen>},
    {"private-jobs", IsSame<&Config::private_jobs>},
    {"metrics-address", IsSame<&Config::metrics_address>},
    {"metrics-tls-cert", IsSame<&Config::metrics_tls_cert>},
    {"metrics-tls-key", IsSame<&Config::metrics_tls_key>},
    {"metrics-token-file", IsSame<&Config::metrics_token_file>},
    {"device-lock", IsSame<&Config::device_lock>},
    {"model-root", IsSame<&Config::model_roots>},
    {"data-root", IsSame<&Config::data_roots>},
    {"hub", SameHub<&hub::Settings::url>},
    {"hub-token-file", SameHub<&hub::Settings::token_file>},
    {"hub-ca-file", SameHub<&hub::Settings::ca_file>},
    {"hub-allow-private", SameHub<&hub::Settings::allow_private>},
    {"environment", IsSame<&Config::environment>},
    {"min-free-bytes", IsSame<&Config::min_free_bytes>},
    {"blob-grace-seconds", IsSame<&Config::blob_grace>},
    {"audit-keep-days", IsSame<&Config::audit_keep>},
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
    {"fair-share-half-life-hours", IsSame<&Config::fair_share_half_life>, true},
    {"preempt", SamePreemption<&PreemptionPolicy::enabled>, true},
    {"preempt-margin-seconds", SamePreemption<&PreemptionPolicy::margin>, true},
    {"preempt-min-run-seconds", SamePreemption<&PreemptionPolicy::least_run>,
     true},
    {"pause-on-battery", SamePause<&PausePolicy::on_battery>, true},
    {"pause-on-thermal", SamePause<&PausePolicy::thermal>, true},
    {"pause-on-memory-pressure", SamePause<&PausePolicy::memory_pressure>,
     true},
    {"quiet-hours", SamePause<&PausePolicy::quiet_hours>, true},
    {"idle-only-seconds", SamePause<&PausePolicy::idle_only>, true},
    {"pause-hold-seconds", SamePause<&PausePolicy::hold_limit>, true},
    {"pause-settle-seconds", SamePause<&PausePolicy::settle>, true},
    {"host-interval-seconds", IsSame<&Config::host_interval>},
    {"limit-queued-jobs", SameLimit<&jobs::UserLimits::queued_jobs>, true},
    {"limit-upload-bytes", SameLimit<&jobs::UserLimits::upload_bytes>, true},
    {"limit-result-bytes", SameLimit<&jobs::UserLimits::result_bytes>, true},
    {"limit-priority",
     SameLimit<&jobs::UserLimits::lowest_priority,
               &jobs::UserLimits::highest_priority>,
     true},
    {"limit-job-hours", SameLimit<&jobs::UserLimits::job_time>, true},
    {"keep-days", SameKeep<&jobs::KeepRules::age>, true},
    {"keep-jobs", SameKeep<&jobs::KeepRules::jobs>, true},
    {"keep-bytes", SameKeep<&jobs::KeepRules::bytes>, true},
    {"keep-checkpoints-days", SameKeep<&jobs::KeepRules::checkpoint_age>, true},
    {"state-budget-bytes", IsSame<&Config::state_budget>, true},
    {"user-limit",
     [](const Config& a, const Config& b) {
       return a.user_limits.users == b.user_limits.users;
     },
     true},
    {"notify-on", SameNotify<&NotifySettings::topics>},
    {"notify-command", SameNotify<&NotifySettings::command>},
    {"notify-low-disk-bytes", SameNotify<&NotifySettings::low_disk_bytes>},
    {"notify-settle-seconds", SameNotify<&NotifySettings::settle>},
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
  running.fair_share_half_life = next.fair_share_half_life;
  running.preemption = next.preemption;
  running.user_limits = next.user_limits;
  running.state_budget = next.state_budget;
  return running;
}

}  // namespace mpsd
