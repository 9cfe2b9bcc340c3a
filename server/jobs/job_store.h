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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/jobs/job.h"
#include "server/jobs/list_filter.h"

namespace mpsd::jobs {

// What an owner used of the device lately (usage_book.h): seconds as of `time`.
struct OwnerUse {
  std::string owner;
  double seconds = 0;
  absl::Time time;
};

struct FoundJob {
  std::string id;
  std::string name;
  State state = State::kQueued;
  std::string owner = "";
};

// Stores jobs. Every call that changes something is one transaction, and
// durable when it returns OK. Thread-safe. Implemented by server/store over
// SQLite and by a fake in the tests.
class JobStore {
 public:
  virtual ~JobStore() = default;

  // Adds a row and its first event. AlreadyExists when the owner has used the
  // idempotency key, whatever the request.
  virtual absl::Status Insert(const Job& job, const Event& first) = 0;

  // Replaces the row of job.id and appends `events`, whose sequences are
  // already set. FailedPrecondition when the stored state cannot become
  // job.state. A call that changes neither state nor cancel_requested and whose
  // only events are Progress survives a kill of mpsd at once, but survives a
  // power cut only once a later call of another kind has returned.
  // With `use` the same transaction replaces what is stored of that owner.
  virtual absl::Status Update(const Job& job, absl::Span<const Event> events,
                              const OwnerUse* use) = 0;
  absl::Status Update(const Job& job, absl::Span<const Event> events) {
    return Update(job, events, nullptr);
  }

  // Adds a checkpoint; removes the rows of the checkpoints at its
  // removed_paths, whose folders are gone.
  virtual absl::Status AddCheckpoint(const std::string& job_id,
                                     const Checkpoint& checkpoint) = 0;

  // Removes the row with its events, labels and checkpoints. NotFound;
  // FailedPrecondition when the job has not ended, or when the spec of a job
  // that has not ended names a path in its folder.
  virtual absl::Status Delete(const std::string& id) = 0;

  // The id of a job that has not ended and needs the files of job `id`, or "".
  virtual absl::StatusOr<std::string> UserOf(const std::string& id) = 0;
  // Removes the rows of the job's checkpoints.
  virtual absl::Status ForgetCheckpoints(const std::string& job_id) = 0;

  // NotFound when there is no such job.
  virtual absl::StatusOr<Job> Get(const std::string& id) = 0;
  // The job's owner alone, also of a job whose row cannot be read as a whole.
  // NotFound when there is no such job.
  virtual absl::StatusOr<std::string> OwnerOf(const std::string& id) = 0;
  // The states of those of the jobs that exist, by id; of jobs whose rows
  // cannot be read as a whole, too.
  virtual absl::StatusOr<std::map<std::string, State>> StatesOf(
      absl::Span<const std::string> ids) = 0;
  virtual absl::StatusOr<std::optional<Job>> FindByIdempotencyKey(
      const std::string& owner, const std::string& key) = 0;
  virtual absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) = 0;
  // The number of jobs that match, whatever the filter's `limit` and `after`.
  virtual absl::StatusOr<int64_t> CountListed(const ListFilter& filter) = 0;
  // Jobs whose id begins with `part`, and jobs whose id ends with `part` among
  // those that have not ended and the latest kRecentJobs. Newest first, at most
  // `limit`.
  static constexpr int kRecentJobs = 1000;
  virtual absl::StatusOr<std::vector<FoundJob>> FindByIdPart(
      const std::string& part, int limit) = 0;
  // The id of every job, in any order.
  virtual absl::StatusOr<std::vector<std::string>> Ids() = 0;
  virtual absl::StatusOr<std::map<State, int64_t>> CountByState() = 0;
  // The ids of the QUEUED and RUNNING jobs, oldest first, even where the rest
  // of their rows cannot be read.
  virtual absl::StatusOr<std::vector<std::string>> Unfinished() = 0;
  // Makes a row for which Get returns DataLoss FAILED, with `message`, and
  // drops its unreadable columns, so that the row can be read from now on.
  virtual absl::Status MarkUnreadable(const std::string& id,
                                      const std::string& message,
                                      absl::Time now) = 0;

  // At most `limit` events of one job after sequence `after`, in order.
  // Progress more than 1,000 sequences old is thinned: the store keeps every
  // tenth such event. Every other event stays.
  virtual absl::StatusOr<std::vector<Event>> Events(const std::string& job_id,
                                                    int64_t after,
                                                    int limit) = 0;
  virtual absl::StatusOr<int64_t> LastSequence(const std::string& job_id) = 0;
  // Oldest first.
  virtual absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& job_id) = 0;

  // What is stored of each owner, in any order.
  virtual absl::StatusOr<std::vector<OwnerUse>> OwnerUses() = 0;
  virtual absl::Status ForgetUses(absl::Span<const std::string> owners) = 0;

  // Why no job is to start, as SetDrain stored it; nullopt where jobs start.
  virtual absl::StatusOr<std::optional<std::string>> Drain() = 0;
  virtual absl::Status SetDrain(const std::optional<std::string>& why) = 0;

  virtual int64_t schema_version() const = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_STORE_H_
