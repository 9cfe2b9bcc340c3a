// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_CLOCK_TRUST_H_
#define MPSD_SERVER_JOBS_CLOCK_TRUST_H_

#include <optional>

#include "absl/time/time.h"

namespace mpsd::retention {

// Whether the wall clock may decide that a job is old. A machine that starts
// without a battery for its clock, or whose clock is set ahead, would otherwise
// remove everything at once. The clock is trusted once it has kept step with
// the monotonic clock for a while. One thread at a time.
class ClockTrust {
 public:
  // How long the clocks must keep step, and how far they may differ by then.
  static constexpr absl::Duration kSettle = absl::Hours(1);
  static constexpr absl::Duration kStep = absl::Minutes(2);

  // Reads both clocks.
  bool Look(absl::Time wall, absl::Duration monotonic);

 private:
  // The clocks' readings when they last began to keep step.
  std::optional<absl::Time> wall_;
  absl::Duration monotonic_;
};

}  // namespace mpsd::retention

#endif  // MPSD_SERVER_JOBS_CLOCK_TRUST_H_
