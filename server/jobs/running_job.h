// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RUNNING_JOB_H_
#define MPSD_SERVER_JOBS_RUNNING_JOB_H_

#include <cstdint>
#include <optional>
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

// The row of a job during an attempt, and the events that the store does not
// have yet. Each method changes the row in memory; Flush() writes the row with
// its events in one transaction. Not thread-safe.
class RunningJob {
 public:
  // Bounds of a row, whatever a worker sends.
  static constexpr size_t kMostWarnings = limits::kWarnings;
  static constexpr size_t kLongestWarning = limits::kWarningBytes;

  // Reads the job's last event and checkpoint from `store`. Returns the store's
  // error.
  static absl::StatusOr<RunningJob> Load(JobStore& store, Job job);

  // `last_sequence`: the sequence of the job's last stored event;
  // `last_checkpoint`: the highest step among its checkpoints, 0 for none.
  RunningJob(Job job, int64_t last_sequence, int64_t last_checkpoint);

  const Job& job() const { return job_; }
  // Whether a step of this attempt was reported.
  bool has_stepped() const { return began_; }

  // Begins the next attempt; `boot_id` names the machine's boot.
  void Start(const std::string& boot_id, absl::Time now);
  void CancelRequested(absl::Time now);
  // Records a step, with tokens per second and ETA. When an attempt's
  // first step is beyond every known checkpoint, an earlier worker wrote a
  // newer checkpoint while no daemon ran. Between two flushes only the latest
  // progress becomes an event. The first time that an operator runs on the CPU
  // is an event of its own.
  void Progressed(Progress progress, absl::Time now);
  void Evaluated(const Evaluated& evaluated, absl::Time now);
  // A step beyond every earlier checkpoint resets the counts of failures and
  // interruptions.
  void CheckpointWritten(const Checkpoint& checkpoint);
  // Adds an event for people when `stage` differs from the stage before, but
  // for report::kStageSaving.
  void Staged(const std::string& stage, absl::Time now);
  // Adds an event for people.
  void Noted(const std::string& text, absl::Time now);
  // Something is amiss but the run goes on. A text that is new to the job
  // becomes an event and is kept in the row, cut to kLongestWarning; the last
  // of kMostWarnings says that there were more.
  void Warned(const std::string& text, absl::Time now);
  // Records how the attempt ended, and the job's next state.
  void Ended(const WorkerListener::Result& result, const NextState& next,
             absl::Time now);
  // A person asked for the job again after its end: QUEUED, with every count at
  // zero. The next attempt resumes from the job's checkpoints.
  void Retried(absl::Time now);
  // Replaces the spec, in which the results of other jobs have taken the places
  // of their names.
  void Respecified(const std::string& spec_json);
  // As Retried, but from scratch: the row forgets what earlier attempts
  // reached, and the next attempt is to find no checkpoint (Job::fresh).
  void Renewed(absl::Time now);
  // The same for a RUNNING job, which forgets what it reached once it is
  // QUEUED.
  void RenewLater() {
    job_.fresh = true;
    dirty_ = true;
  }
  // The changes that people make to a queued job, each an event, too. Held
  // replaces an earlier reason, and `why` is not empty.
  void Held(const std::string& why, absl::Time now);
  // `after`: what Job::after becomes.
  void Released(std::vector<std::string> after, absl::Time now);
  void MovedTo(int64_t place, bool among_all, int32_t priority,
               const std::string& text, absl::Time now);
  // Adds `used` to the job's device time. The next Flush stores it together
  // with `use`, what its owner used by then, if anything.
  void Charged(absl::Duration used, std::optional<OwnerUse> use);
  // Moves the job to `state` without a worker's report.
  void Moved(State state, const std::string& message, absl::Time now);

  bool dirty() const { return dirty_; }
  // On error row and events are kept for the next try.
  absl::Status Flush(JobStore& store);

 private:
  template <typename Body>
  void Add(Body body, absl::Time now);

  void Reached(const Outcome& outcome);
  void ForgetRun();
  void Saved(int64_t step);

  Job job_;
  int64_t last_sequence_;
  bool began_ = false;  // a step of this attempt was reported
  std::string stage_;
  StepRate rate_;
  std::optional<OwnerUse> unsaved_use_;
  std::vector<Event> unsaved_;
  bool dirty_ = false;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RUNNING_JOB_H_
