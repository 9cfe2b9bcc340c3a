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
  // A job FAILED after so many failures in a row without a new checkpoint
  // between them.
  int32_t max_failures = 3;
  // The wait after the first failure; it doubles up to the cap.
  absl::Duration first_backoff = absl::Seconds(10);
  absl::Duration max_backoff = absl::Minutes(10);
};

// What becomes of a RUNNING job.
struct NextState {
  State state = State::kFailed;
  int32_t failures = 0;
  std::optional<absl::Time> not_before;  // only with kQueued
  std::string message;
};

// Done makes SUCCEEDED; after a cancel everything else makes CANCELLED.
// Rejected, OutOfMemory and NonFinite would end the same way again: FAILED at
// once. Preempted goes back to the queue and counts as no failure. Crashed,
// Hung and ProtocolError go back with a wait until the policy's limit.
NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now);

absl::Duration Backoff(const RetryPolicy& policy, int32_t failures);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RETRY_H_
