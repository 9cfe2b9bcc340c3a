// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/pause_gate.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mpsd::jobs {
namespace {

constexpr int kHour = 60;
constexpr int kDay = 24 * kHour;

// Minutes since midnight for "07:00", in exactly this form.
std::optional<int> Minute(const std::string& text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  for (size_t i : {0, 1, 3, 4}) {
    if (!absl::ascii_isdigit(text[i])) return std::nullopt;
  }
  const auto two = [&](size_t i) {
    return 10 * (text[i] - '0') + (text[i + 1] - '0');
  };
  if (two(0) > 23 || two(3) > 59) return std::nullopt;
  return kHour * two(0) + two(3);
}

}  // namespace

absl::StatusOr<QuietHours> ParseQuietHours(const std::string& text) {
  const size_t dash = text.find('-');
  std::optional<int> begin, end;
  if (dash != std::string::npos) {
    begin = Minute(text.substr(0, dash));
    end = Minute(text.substr(dash + 1));
  }
  if (!begin || !end || *begin == *end) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a span of hours; write 22:00-07:00"));
  }
  return QuietHours{*begin, *end};
}

bool IsQuiet(const QuietHours& hours, absl::Time now, absl::TimeZone zone) {
  const absl::CivilSecond civil = absl::ToCivilSecond(now, zone);
  const int minute = kHour * civil.hour() + civil.minute();
  const auto since_begin = [&](int m) {
    return (m - hours.begin_minute + kDay) % kDay;
  };
  return since_begin(minute) < since_begin(hours.end_minute);
}

std::string ToString(const QuietHours& hours) {
  return absl::StrFormat("%02d:%02d-%02d:%02d", hours.begin_minute / kHour,
                         hours.begin_minute % kHour, hours.end_minute / kHour,
                         hours.end_minute % kHour);
}

namespace {

constexpr absl::Duration kMemoryHoldLimit = absl::Minutes(1);
constexpr int kSoonAgain = 10;  // times the settling time

constexpr report::EnumName<PauseReason> kWords[] = {
    {PauseReason::kBattery, "on battery or in Low Power Mode"},
    {PauseReason::kThermal, "too hot"},
    {PauseReason::kMemoryPressure, "short of memory"},
    {PauseReason::kQuietHours, "quiet hours"},
    {PauseReason::kUserActive, "the machine is in use"}};

template <typename Level>
std::optional<bool> Reaches(const std::optional<Level>& level,
                            const std::optional<Level>& limit) {
  if (!limit) return false;
  if (!level) return std::nullopt;
  return *level >= *limit;
}

}  // namespace

std::string Describe(const PauseReasons& reasons) {
  std::string text;
  for (PauseReason reason : reasons) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    report::NameIn(kWords, reason));
  }
  return text;
}

absl::Duration HoldLimit(const PausePolicy& policy,
                         const PauseReasons& reasons) {
  return reasons.contains(PauseReason::kMemoryPressure)
             ? std::min(policy.hold_limit, kMemoryHoldLimit)
             : policy.hold_limit;
}

void PauseGate::Observe(const host::Reading& reading, absl::Time now,
                        absl::Duration monotonic) {
  for (PauseReason reason : kAllPauseReasons) {
    Trace& trace = traces_[reason];
    // A sensor that fails counts as a condition that is over, so that it cannot
    // hold the queue forever.
    if (Holds(reason, reading, now).value_or(false)) {
      if (reasons_.insert(reason).second) {
        const bool soon_again =
            monotonic - trace.ended < kSoonAgain * trace.settle;
        trace.settle = soon_again
                           ? std::min(2 * trace.settle, policy_.settle_max)
                           : FirstSettle(reason);
      }
      trace.last_held = monotonic;
    } else if (monotonic - trace.last_held >= trace.settle &&
               reasons_.erase(reason) > 0) {
      trace.ended = monotonic;
    }
  }
}

std::optional<bool> PauseGate::Holds(PauseReason reason,
                                     const host::Reading& reading,
                                     absl::Time now) const {
  switch (reason) {
    case PauseReason::kBattery:
      if (!policy_.on_battery) return false;
      if (!reading.power_source && !reading.low_power_mode) break;
      return reading.power_source == host::PowerSource::kBattery ||
             reading.low_power_mode == true;
    case PauseReason::kThermal:
      return Reaches(reading.thermal, policy_.thermal);
    case PauseReason::kMemoryPressure:
      return Reaches(reading.memory_pressure, policy_.memory_pressure);
    case PauseReason::kQuietHours:
      return policy_.quiet_hours &&
             IsQuiet(*policy_.quiet_hours, now, policy_.zone);
    case PauseReason::kUserActive:
      if (policy_.idle_only <= absl::ZeroDuration()) return false;
      if (!reading.user_idle_seconds) break;
      return absl::Seconds(*reading.user_idle_seconds) < policy_.idle_only;
  }
  return std::nullopt;
}

// The clock and the user's idleness need no settling.
absl::Duration PauseGate::FirstSettle(PauseReason reason) const {
  return reason == PauseReason::kQuietHours ||
                 reason == PauseReason::kUserActive
             ? absl::ZeroDuration()
             : policy_.settle;
}

PauseReasons PauseGate::Unobservable(const host::Reading& reading) const {
  PauseReasons unobservable;
  for (PauseReason reason : kAllPauseReasons) {
    // Only the quiet hours depend on the time, and they need no reading.
    if (!Holds(reason, reading, absl::UnixEpoch())) unobservable.insert(reason);
  }
  return unobservable;
}

std::optional<host::Reading> HostWatch::ReadIfDue() {
  if (host_ == nullptr) return std::nullopt;
  const absl::Duration now = clock_.Monotonic();
  if (read_at_ && now - *read_at_ < interval_) return std::nullopt;
  read_at_ = now;
  return host_->Read();
}

absl::Time HostWatch::NextTime() const {
  if (!read_at_) return absl::InfiniteFuture();
  return clock_.Now() + interval_ - (clock_.Monotonic() - *read_at_);
}

std::string HostWatch::NewsOf(PauseReasons unobservable) {
  if (unobservable == logged_) return "";
  logged_ = std::move(unobservable);
  if (logged_.empty()) return "";
  return absl::StrCat("asked to pause for what this machine does not report: ",
                      Describe(logged_));
}

}  // namespace mpsd::jobs
