// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PRIOR_JOBS_H_
#define MPSD_SERVER_JOBS_PRIOR_JOBS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {

// The job's spec; one without paths if it cannot be read: the worker reports
// what is wrong. Parses job.json, so call it once per attempt.
spec::TrainSpec SpecOf(const Job& job);

// Checks what the machine lacks, before a worker is started and after one has
// failed. Each function below returns a human-readable text, "" if nothing is
// lacking.

// Names the first of the paths of `spec`, the job's, that existed at Submit and
// is gone now.
std::string MissingPath(const Job& job, const spec::TrainSpec& spec,
                        JobFiles& files);

// Reports that fewer than `floor` bytes are free on the state folder's disk.
std::string FullDisk(int64_t floor, JobFiles& files);

// Reports that the disk has no space for a checkpoint of the job plus `floor`.
std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files);

// In a spec `model` and `adapter` may be "job:ID" for the result of a job
// (core/spec/train_spec.h), even before that job has ended.

// Reads a job that a submission names; NotFound for one that the submitter may
// not read. Empty: there are no jobs.
using FindJob = std::function<absl::StatusOr<Job>(const std::string& id)>;

// The ids of the jobs that `spec` names this way, each once.
std::vector<std::string> JobsNamedBy(const spec::TrainSpec& spec);

// Replaces each name whose job has SUCCEEDED by the result's folder; other
// names are unchanged.
//   INVALID_ARGUMENT    the job makes, or made, the other kind of result.
//   FAILED_PRECONDITION no such job, or the folder is missing.
//   other codes         the job's row cannot be read now.
absl::Status PlaceResults(const FindJob& find, JobFiles& files,
                          spec::TrainSpec& spec);

// The model with which to check a submission whose `model`, `name`, names a job
// that has not succeeded: the one that this job began with, whose shape the
// result will have. Its folder is `name`.
absl::StatusOr<JobFiles::Model> ModelToBe(const FindJob& find, JobFiles& files,
                                          const std::string& name);

// The folders of other jobs that `spec` names as its model and its adapter: a
// worker may read these too. Accesses no file.
std::vector<std::string> ResultsReadBy(const spec::TrainSpec& spec,
                                       const JobFiles& files);

// The prior jobs of a job are those of Job::after: they must succeed before the
// job starts for the first time.

// Each prior job that exists, with its state.
using PriorStates = std::map<std::string, State>;

// The effect of its prior jobs on a job.
struct PriorStanding {
  // OK to start if both are empty. Human-readable; only ids and states, which
  // are public.
  std::string waits;   // for these jobs, which have not ended
  std::string failed;  // why it must be held; at most limits::kReasonBytes
};

// Whether Job::after counts: of a queued job that no worker has started yet.
bool AwaitsPriors(const Job& job);

PriorStanding StandingOf(const Job& job, const PriorStates& states);

// The ids of job.after without those of jobs that ended without success, or no
// longer exist; a job whose result the spec names is kept, because the job
// cannot run without the result.
std::vector<std::string> WithoutFailed(const Job& job,
                                       const PriorStates& states);

// Which queued jobs wait for which, and which of them need a check because a
// job they wait for has changed. Only ids, so that the end of a job for which
// many wait costs nothing at once. Thread-safe.
class WaitingJobs {
 public:
  // `id` waits for `priors`; replaces earlier ones.
  void Await(const std::string& id, const std::vector<std::string>& priors);
  void Forget(const std::string& id);
  // Schedules a check of the jobs that wait for `prior`.
  void Changed(const std::string& prior);
  // Schedules a check of one job, if it waits.
  void LookAt(const std::string& id);
  // Takes one of the jobs to check; nullopt if none is left.
  std::optional<std::string> Take();

 private:
  void ForgetLocked(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  // By waiting job, and by prior job.
  std::map<std::string, std::vector<std::string>> priors_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<std::string>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> changed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_PRIOR_JOBS_H_
