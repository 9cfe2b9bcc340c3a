// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/worker_launcher.h"

#include <algorithm>

namespace mpsd::jobs {

HangLimit::HangLimit(absl::Duration configured, absl::Duration slowest_step,
                     absl::Duration now)
    : configured_(configured),
      slowest_(std::clamp(slowest_step, absl::ZeroDuration(), kMostBelieved)),
      heard_at_(now),
      stepped_at_(now) {}

void HangLimit::Heard(absl::Duration now) {
  slowest_ = std::max(slowest_, now - heard_at_);
  heard_at_ = now;
}

void HangLimit::Stepped(absl::Duration now, double seconds) {
  Heard(now);
  // NaN, zero and negative seconds do not lengthen the limit.
  if (seconds > 0) {
    slowest_ =
        std::max(slowest_, std::min(absl::Seconds(seconds), now - stepped_at_));
  }
  stepped_at_ = now;
}

absl::Duration HangLimit::limit() const {
  return std::max(configured_, kFactor * slowest_);
}

}  // namespace mpsd::jobs
