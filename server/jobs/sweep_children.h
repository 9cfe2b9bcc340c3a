// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_SWEEP_CHILDREN_H_
#define MPSD_SERVER_JOBS_SWEEP_CHILDREN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// A job of a sweep that is to be.
struct ChildRequest {
  SubmitRequest request;  // without an idempotency key
  std::string name;       // of the child, in the words of an error
};

// What a sweep does to its jobs. Thread-safe. Implemented by jobs::Scheduler.
class SweepChildren {
 public:
  // Stores the rows of the children with their first events, in one
  // transaction with whatever the sweep stores of itself.
  using Insert = std::function<absl::Status(absl::Span<const Job>,
                                            absl::Span<const Event>)>;

  virtual ~SweepChildren() = default;

  // Queues all of them as jobs of the sweep `sweep_id`, each until it has a
  // checkpoint of `until_step` (0: to its end), or none. The requests have one
  // owner, one set of limits and one `wanted`. Errors as for
  // JobManager::Submit, naming the child that is refused; those of `insert`.
  virtual absl::StatusOr<std::vector<Job>> SubmitChildren(
      absl::Span<const ChildRequest> children, const std::string& sweep_id,
      int64_t until_step, const Insert& insert) = 0;

  // The next two are FailedPrecondition for a job that is not QUEUED, and
  // Aborted where the end of its last attempt is not stored yet. Lets the job
  // run until it has a checkpoint of `until_step`; 0: to its end.
  virtual absl::StatusOr<Job> SendOn(const std::string& id,
                                     int64_t until_step) = 0;
  // Makes the job CANCELLED, with `why` as its message. A person who queues it
  // again has it run to its end.
  virtual absl::StatusOr<Job> Drop(const std::string& id,
                                   const std::string& why) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SWEEP_CHILDREN_H_
