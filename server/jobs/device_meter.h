// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_DEVICE_METER_H_
#define MPSD_SERVER_JOBS_DEVICE_METER_H_

#include <optional>

#include "absl/time/time.h"

namespace mpsd::jobs {

// Measures how long an attempt holds the device; pauses do not count. Times
// come from a clock that never jumps and stands still while the machine sleeps
// (base::AwakeTime). A call that repeats the one before it does nothing. Not
// thread-safe.
class DeviceMeter {
 public:
  // Measures from `now` on.
  explicit DeviceMeter(absl::Duration now) : since_(now) {}

  void Stop(absl::Duration now);
  void GoOn(absl::Duration now);
  // The time measured until `now`.
  absl::Duration Measured(absl::Duration now) const;
  bool is_running() const { return since_.has_value(); }

 private:
  absl::Duration before_;                // measured until the last Stop
  std::optional<absl::Duration> since_;  // absent after Stop
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_DEVICE_METER_H_
