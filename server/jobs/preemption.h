// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PREEMPTION_H_
#define MPSD_SERVER_JOBS_PREEMPTION_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "server/jobs/job_queue.h"

namespace mpsd::jobs {

// When a queued job takes the device from a running job of lower priority.
struct PreemptionPolicy {
  bool enabled = false;
  // A running job that trains for less than this keeps the device: to write a
  // checkpoint and to load it again would cost about as much.
  absl::Duration margin = absl::Minutes(5);
  // So long an attempt keeps the device at least.
  absl::Duration least_run = absl::Minutes(5);
};

// What decides about the running job.
struct Holder {
  int32_t priority = 0;
  // A step of this attempt has finished: whatever is taken away from a job, it
  // advances by a step with each attempt.
  bool has_stepped = false;
  absl::Duration run;                  // the attempt's time on the device
  std::optional<absl::Duration> left;  // to train; absent where not known
};

// Whether `challenger`, which may start now, takes the device from `holder`. A
// challenger that waits behind all others takes it from nobody.
bool MayTake(const PreemptionPolicy& policy, const JobQueue::Entry& challenger,
             const Holder& holder);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_PREEMPTION_H_
