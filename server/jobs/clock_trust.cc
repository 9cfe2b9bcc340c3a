// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/clock_trust.h"

namespace mpsd::retention {

bool ClockTrust::Look(absl::Time wall, absl::Duration monotonic) {
  if (!wall_) {
    wall_ = wall;
    monotonic_ = monotonic;
    return false;
  }
  const absl::Duration differ =
      absl::AbsDuration((wall - *wall_) - (monotonic - monotonic_));
  if (differ > kStep) {
    wall_ = wall;
    monotonic_ = monotonic;
    return false;
  }
  return monotonic - monotonic_ >= kSettle;
}

}  // namespace mpsd::retention
