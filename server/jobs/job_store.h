// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_STORE_H_
#define MPSD_SERVER_JOBS_JOB_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

struct ListFilter {
  std::vector<State> states;                  // empty: all
  std::string owner;                          // empty: all
  std::map<std::string, std::string> labels;  // all must match
  int limit = 50;
  std::string before_id;  // exclusive; empty: from the newest
};

// Where jobs live. Every call that changes something is one transaction and
// durable when it returns OK. Thread-safe. Implemented by server/store over
// SQLite and by a fake in the tests.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // A new row and its first event. AlreadyExists when the idempotency key is
  // taken (whatever the request).
  virtual absl::Status Insert(const Job& job, const Event& first) = 0;

  // Replaces the row of job.id and appends `events` (their sequence already
  // set). FailedPrecondition when the stored state cannot become job.state.
  // A call that changes neither state nor cancel_requested and brings Progress
  // alone survives the death of mpsd at once, but a power cut only once a later
  // call of another kind has returned.
  virtual absl::Status Update(const Job& job,
                              absl::Span<const Event> events) = 0;

  // The checkpoints at `removed_paths` are gone.
  virtual absl::Status AddCheckpoint(
      const std::string& job_id, const Checkpoint& checkpoint,
      absl::Span<const std::string> removed_paths) = 0;

  // NotFound.
  virtual absl::StatusOr<Job> Get(const std::string& id) = 0;
  virtual absl::StatusOr<std::optional<Job>> FindByIdempotencyKey(
      const std::string& key) = 0;
  // Newest first.
  virtual absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) = 0;
  virtual absl::StatusOr<std::map<State, int64_t>> CountByState() = 0;

  // Of one job, sequence > after, at most `limit`, in order. Of the Progress
  // more than 1,000 sequences old every tenth is left, every other event stays.
  virtual absl::StatusOr<std::vector<Event>> Events(const std::string& job_id,
                                                    int64_t after,
                                                    int limit) = 0;
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& job_id) = 0;
  // Oldest first.
  virtual absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& job_id) = 0;

  virtual int64_t schema_version() const = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_STORE_H_
