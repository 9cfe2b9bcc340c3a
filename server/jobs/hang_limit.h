// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_HANG_LIMIT_H_
#define MPSD_SERVER_JOBS_HANG_LIMIT_H_

#include "absl/time/time.h"

namespace mpsd::jobs {

// How long the daemon waits for a silent worker: the configured time, or three
// times the job's slowest step or the longest silence that the worker ended by
// itself, whichever is longest. A slow machine that was seen to take so long
// does not hang. Times come from a clock that stands still while the machine
// sleeps, as the worker does (base::AwakeTime). Not thread-safe.
class HangLimit {
 public:
  static constexpr int kFactor = 3;

  // The longest step of an earlier attempt that is believed: the attempt's
  // clock may have counted the machine's sleep.
  static constexpr absl::Duration kMostBelieved = absl::Hours(1);

  // `slowest_step`: seconds of the slowest step of earlier attempts, zero for
  // none.
  HangLimit(absl::Duration configured, absl::Duration slowest_step,
            absl::Duration now);

  // The worker sent any message at `now`.
  void Heard(absl::Duration now);
  // The worker finished a step, which took `seconds` by its own account. The
  // limit believes no more than the time since the step before it.
  void Stepped(absl::Duration now, double seconds);

  absl::Duration heard_at() const { return heard_at_; }
  absl::Duration limit() const;
  absl::Duration deadline() const { return heard_at_ + limit(); }

 private:
  const absl::Duration configured_;
  absl::Duration slowest_;
  absl::Duration heard_at_;
  absl::Duration stepped_at_;  // end of the last step, or the start
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_HANG_LIMIT_H_
