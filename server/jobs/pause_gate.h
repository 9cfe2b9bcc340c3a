// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/host.h"
#include "core/report/report.h"

namespace mpsd::jobs {

// The hours of a day in which nothing trains, by local wall-clock time.
struct QuietHours {
  int begin_minute = 0;  // minute of the day, 0..1439
  int end_minute = 0;    // exclusive; before `begin`: on the next day

  bool operator==(const QuietHours&) const = default;
};

// Parses "22:00-07:00". InvalidArgument for any other form, and for an empty
// span.
absl::StatusOr<QuietHours> ParseQuietHours(const std::string& text);

bool IsQuiet(const QuietHours& hours, absl::Time now, absl::TimeZone zone);

// "22:00-07:00".
std::string ToString(const QuietHours& hours);

// Why no queued job starts though none trains, the most severe reason first.
enum class HoldReason {
  kStorage,  // the queue cannot be written
  kDisk,     // less is free than mpsd must leave
  kMachine,  // the machine's fault ended the last attempt
  kDevice,   // the self-test failed, or an earlier daemon's worker has it
  kDrained,  // by an admin: Scheduler::DrainQueue
};
// The names are the labels of metrics.
inline constexpr report::EnumName<HoldReason> kHoldReasons[] = {
    {HoldReason::kStorage, "storage"},
    {HoldReason::kDisk, "disk"},
    {HoldReason::kMachine, "machine"},
    {HoldReason::kDevice, "device"},
    {HoldReason::kDrained, "drained"}};
inline constexpr auto kAllHoldReasons = report::ValuesOf(kHoldReasons);
constexpr std::string_view Name(HoldReason reason) {
  return report::NameIn(kHoldReasons, reason);
}

// Each reason with its human-readable text.
using Holds = std::map<HoldReason, std::string>;

// Why nothing trains at present.
enum class PauseReason {
  kBattery,         // no mains, or Low Power Mode
  kThermal,         // the machine is too hot
  kMemoryPressure,  // others need the memory
  kQuietHours,
  kUserActive,  // the machine is in use
};
// The names are the labels of metrics.
inline constexpr report::EnumName<PauseReason> kPauseReasons[] = {
    {PauseReason::kBattery, "battery"},
    {PauseReason::kThermal, "thermal"},
    {PauseReason::kMemoryPressure, "memory_pressure"},
    {PauseReason::kQuietHours, "quiet_hours"},
    {PauseReason::kUserActive, "user_active"}};
inline constexpr auto kAllPauseReasons = report::ValuesOf(kPauseReasons);
constexpr std::string_view Name(PauseReason reason) {
  return report::NameIn(kPauseReasons, reason);
}

using PauseReasons = std::set<PauseReason>;
// Human-readable: "on battery, too hot".
std::string Describe(const PauseReasons& reasons);

// The policy for the machine's users; all off by default.
struct PausePolicy {
  bool on_battery = false;
  std::optional<host::Thermal> thermal;  // pause at this level or above
  // pause at this level or above
  std::optional<host::MemoryPressure> memory_pressure;
  std::optional<QuietHours> quiet_hours;
  // Train once the machine was unused for this long; zero: always
  absl::Duration idle_only;
  absl::TimeZone zone = absl::LocalTimeZone();

  // How long a condition must be gone before its reason ends. The time doubles,
  // up to settle_max, each time the condition returns within ten times the
  // time.
  absl::Duration settle = absl::Seconds(30);
  absl::Duration settle_max = absl::Minutes(10);
  // How long a job is held in memory; then it writes a checkpoint, returns to
  // the queue and frees the memory.
  absl::Duration hold_limit = absl::Minutes(10);
};

// How long a job is held for `reasons`: under memory pressure at most a minute,
// because a held job keeps the memory that others lack.
absl::Duration HoldLimit(const PausePolicy& policy,
                         const PauseReasons& reasons);

// Decides from the machine's readings whether any job may train. A pause begins
// at once and ends only when its condition has settled, so that a reading that
// flickers does not stop and start the worker. Not thread-safe.
class PauseGate {
 public:
  explicit PauseGate(PausePolicy policy) : policy_(std::move(policy)) {}

  const PausePolicy& policy() const { return policy_; }

  // `monotonic`: the monotonic clock at the moment of `now`.
  void Observe(const host::Reading& reading, absl::Time now,
               absl::Duration monotonic);

  // The reasons to pause; empty: train.
  const PauseReasons& reasons() const { return reasons_; }

  // The reasons that the policy includes and `reading` cannot show; reasons()
  // never contains them.
  PauseReasons Unobservable(const host::Reading& reading) const;

 private:
  struct Trace {
    absl::Duration last_held = -absl::InfiniteDuration();  // monotonic
    absl::Duration ended = -absl::InfiniteDuration();
    absl::Duration settle;
  };

  // False if the policy does not include the reason; nullopt if it does and
  // `reading` cannot show the condition.
  std::optional<bool> Holds(PauseReason reason, const host::Reading& reading,
                            absl::Time now) const;
  absl::Duration FirstSettle(PauseReason reason) const;

  const PausePolicy policy_;
  PauseReasons reasons_;
  std::map<PauseReason, Trace> traces_;
};

// When the machine's state is read. Used only by the thread that calls Tick().
class HostWatch {
 public:
  // `host` is null on a dedicated server, which is never read. It and `clock`
  // must outlive the watch.
  HostWatch(host::Host* host, absl::Duration interval, const base::Clock& clock)
      : host_(host), interval_(interval), clock_(clock) {}

  // The machine's state, if it is due. May block.
  std::optional<host::Reading> ReadIfDue();
  // When the last reading began, by the monotonic clock.
  absl::Duration read_at() const { return *read_at_; }
  // The time of the next reading.
  absl::Time NextTime() const;

  // A line for the log if the reasons that the policy names and this machine
  // cannot show are other ones than in the call before; else "".
  std::string NewsOf(PauseReasons unobservable);

 private:
  host::Host* const host_;
  const absl::Duration interval_;
  const base::Clock& clock_;
  std::optional<absl::Duration> read_at_;
  PauseReasons logged_;
};

}  // namespace mpsd::jobs
