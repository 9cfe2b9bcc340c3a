// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_HANG_LIMIT_H_
#define MPSD_SERVER_JOBS_HANG_LIMIT_H_

#include "absl/time/time.h"

namespace mpsd::jobs {

// Until when a silent worker is waited for: as long as was configured, or three
// times as long as the slowest step of the job and the longest silence that the
// worker broke by itself, whichever is longer. What a slow machine was seen to
// take is no hang. Times are of a clock that stands still while the machine
// sleeps, as the worker does (base::AwakeTime); not thread-safe.
class HangLimit {
 public:
  static constexpr int kFactor = 3;

  // What an earlier attempt says of itself is believed up to here: its clock
  // may have counted the machine's sleep.
  static constexpr absl::Duration kMostBelieved = absl::Hours(1);

  // `slowest_step`: of earlier attempts, zero for none.
  HangLimit(absl::Duration configured, absl::Duration slowest_step,
            absl::Duration now);

  // The worker said something.
  void Heard(absl::Duration now);
  // … that a step is done which took `seconds` by its own account. The time
  // since the step before it bounds what is believed.
  void Stepped(absl::Duration now, double seconds);

  absl::Duration heard_at() const { return heard_at_; }
  absl::Duration limit() const;
  absl::Duration deadline() const { return heard_at_ + limit(); }

 private:
  const absl::Duration configured_;
  absl::Duration slowest_;
  absl::Duration heard_at_;
  absl::Duration stepped_at_;  // or began
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_HANG_LIMIT_H_
