// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PAUSE_GATE_H_
#define MPSD_SERVER_JOBS_PAUSE_GATE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/host/host.h"
#include "server/jobs/quiet_hours.h"

namespace mpsd::jobs {

// Why nothing trains at present.
enum class PauseReason {
  kBattery,         // no mains, or Low Power Mode
  kThermal,         // the machine is too hot
  kMemoryPressure,  // others need the memory
  kQuietHours,
  kUserActive,  // somebody uses the machine
};
inline constexpr PauseReason kAllPauseReasons[] = {
    PauseReason::kBattery, PauseReason::kThermal, PauseReason::kMemoryPressure,
    PauseReason::kQuietHours, PauseReason::kUserActive};
using PauseReasons = std::set<PauseReason>;

// "battery", "thermal" …: the label of metrics.
std::string_view Name(PauseReason reason);
// For people: "on battery, too hot".
std::string Describe(const PauseReasons& reasons);

// What the people who share the machine asked for; all off by default.
struct PausePolicy {
  bool on_battery = false;
  std::optional<host::Thermal> thermal;  // at this level or above
  std::optional<host::MemoryPressure> memory_pressure;  // at it or above
  std::optional<QuietHours> quiet_hours;
  absl::Duration idle_only;  // only while untouched for so long; zero: off
  absl::TimeZone zone = absl::LocalTimeZone();

  // A reason is over once it has not held for so long. It doubles, up to
  // settle_max, each time the reason comes back within ten times as much.
  absl::Duration settle = absl::Seconds(30);
  absl::Duration settle_max = absl::Minutes(10);
  // A job is held in memory for so long, then it writes a checkpoint, goes
  // back to the queue and gives the memory back.
  absl::Duration hold_limit = absl::Minutes(10);
};

// How long a job is held for `reasons`. Under memory pressure a minute at most:
// the job that is held keeps the memory that others lack.
absl::Duration HoldLimit(const PausePolicy& policy,
                         const PauseReasons& reasons);

// Decides from what the machine says whether anything may train. Pausing is
// immediate, going on waits for things to settle. Not thread-safe.
class PauseGate {
 public:
  explicit PauseGate(PausePolicy policy) : policy_(std::move(policy)) {}

  const PausePolicy& policy() const { return policy_; }
  // From the next Observe on. What is over settles as before.
  void SetPolicy(PausePolicy policy) { policy_ = std::move(policy); }

  // `monotonic`: of the same moment as `now`.
  void Observe(const host::Reading& reading, absl::Time now,
               absl::Duration monotonic);

  // Empty: train.
  const PauseReasons& reasons() const { return reasons_; }

  // What the policy asks for and `reading` does not tell: never among the
  // reasons.
  PauseReasons Unobservable(const host::Reading& reading) const;

 private:
  struct Trace {
    absl::Duration last_held = -absl::InfiniteDuration();  // monotonic
    absl::Duration ended = -absl::InfiniteDuration();
    absl::Duration settle;
  };

  bool Holds(PauseReason reason, const host::Reading& reading,
             absl::Time now) const;
  absl::Duration FirstSettle(PauseReason reason) const;

  PausePolicy policy_;
  PauseReasons reasons_;
  std::map<PauseReason, Trace> traces_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_PAUSE_GATE_H_
