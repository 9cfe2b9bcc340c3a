// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RUNNING_JOB_H_
#define MPSD_SERVER_JOBS_RUNNING_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "server/jobs/job.h"
#include "server/jobs/job_store.h"
#include "server/jobs/retry.h"
#include "server/jobs/step_rate.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The row of a job that changes, and the events the store does not have yet.
// Each method changes the row in memory; Flush() writes it with its events in
// one transaction. Not thread-safe.
class RunningJob {
 public:
  // Bounds of a row, whatever a worker says.
  static constexpr size_t kMostWarnings = limits::kWarnings;
  static constexpr size_t kLongestWarning = limits::kWarningBytes;

  // Reads what `store` knows of the job beside its row. The store's error.
  static absl::StatusOr<RunningJob> Load(JobStore& store, Job job);

  // `last_sequence`: of the job's stored events; `last_checkpoint`: the highest
  // step among its checkpoints, 0 for none.
  RunningJob(Job job, int64_t last_sequence, int64_t last_checkpoint);

  const Job& job() const { return job_; }

  // The next attempt, on the machine's boot `boot_id`.
  void Start(const std::string& boot_id, absl::Time now);
  void CancelRequested(absl::Time now);
  // Fills in tokens per second and ETA. An attempt that begins beyond every
  // checkpoint known was preceded by one that nobody heard of: a worker wrote
  // it without a daemon. Between two flushes only the latest
  // progress becomes an event. An operator that ran on the CPU for the first
  // time is an event of its own.
  void Progressed(Progress progress, absl::Time now);
  void Evaluated(const Evaluated& evaluated, absl::Time now);
  // A step beyond every earlier checkpoint ends a row of failures and of
  // interruptions.
  void CheckpointWritten(const Checkpoint& checkpoint, absl::Time now);
  // An event for people when `stage` differs from the one before.
  void Staged(const std::string& stage, absl::Time now);
  // An event for people.
  void Noted(const std::string& text, absl::Time now);
  // Something is amiss and the run goes on: an event, and kept in the row, if
  // it is new to the job. Cut to kLongestWarning; where there are more than
  // kMostWarnings the last one says so.
  void Warned(const std::string& text, absl::Time now);
  // How the attempt ended, and into which state it brings the job.
  void Ended(const WorkerListener::Result& result, const NextState& next,
             absl::Time now);
  // Somebody asked for it once more, after its end: QUEUED, nothing counted.
  // It resumes from its checkpoints.
  void Retried(absl::Time now);
  // To `state` without a worker's doing.
  void Moved(State state, const std::string& message, absl::Time now);

  bool dirty() const { return dirty_; }
  // On error everything is kept for the next try.
  absl::Status Flush(JobStore& store);

 private:
  template <typename Body>
  void Add(Body body, absl::Time now);

  void Reached(const Outcome& outcome);
  void Saved(int64_t step);

  Job job_;
  int64_t last_sequence_;
  bool began_ = false;  // a step of this attempt was seen
  std::string stage_;
  StepRate rate_;
  std::vector<Event> unsaved_;
  bool dirty_ = false;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RUNNING_JOB_H_
