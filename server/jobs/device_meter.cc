// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/device_meter.h"

#include <algorithm>

namespace mpsd::jobs {

void DeviceMeter::Stop(absl::Duration now) {
  before_ = Measured(now);
  since_.reset();
}

void DeviceMeter::GoOn(absl::Duration now) {
  if (!since_) since_ = now;
}

absl::Duration DeviceMeter::Measured(absl::Duration now) const {
  if (!since_) return before_;
  return before_ + std::max(now - *since_, absl::ZeroDuration());
}

}  // namespace mpsd::jobs
