// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RETRY_H_
#define MPSD_SERVER_JOBS_RETRY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/jobs/job.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

struct RetryPolicy {
  // A job FAILED after this many failures, or this many interruptions, in a row
  // without a new checkpoint between them.
  int32_t max_failures = 3;
  int32_t max_interruptions = 5;
  // The wait after the first failure; each further wait is twice as long, up to
  // the cap.
  absl::Duration first_backoff = absl::Seconds(10);
  absl::Duration max_backoff = absl::Minutes(10);
};

// The next state of a RUNNING job.
struct NextState {
  State state = State::kFailed;
  int32_t failures = 0;
  int32_t interruptions = 0;
  bool behind = false;                   // only with kQueued
  std::optional<absl::Time> not_before;  // only with kQueued
  std::string message;
};

// Decides by the table of blame.h. After a cancel every result but Done makes
// CANCELLED. A job that somebody asked for anew while it ran (Job::fresh)
// returns to the queue however the attempt ended, but for its time.
NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now);

// The wait after the `count`th early end in a row.
absl::Duration Backoff(const RetryPolicy& policy, int32_t count);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RETRY_H_
