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

// The job's spec. A spec without paths where it cannot be read: the worker
// reports what is wrong. Parses job.json, so call it once an attempt.
spec::TrainSpec SpecOf(const Job& job);

// Looks for what the machine lacks, before a worker is started and after one
// has failed. Each function below returns a text for people, "" where nothing
// is lacking.

// Names the first of the paths of `spec`, the job's, that existed at Submit and
// is gone now.
std::string MissingPath(const Job& job, const spec::TrainSpec& spec,
                        JobFiles& files);

// Says that fewer than `floor` bytes are free on the state folder's disk.
std::string FullDisk(int64_t floor, JobFiles& files);

// Says that the disk has no room for a checkpoint of the job beside `floor`.
std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files);

// A spec may say "job:ID" in `model` and in `adapter` for the result of a job
// (core/spec/named_result.h), before that job has ended, too.

// Reads a job that a submission names; NotFound for one that the submitter may
// not read. Empty: there are no jobs.
using FindJob = std::function<absl::StatusOr<Job>(const std::string& id)>;

// The ids of the jobs that `spec` names so, each once.
std::vector<std::string> JobsNamedBy(const spec::TrainSpec& spec);

// Puts the result's folder in the place of each name whose job has SUCCEEDED;
// other names stay as they are.
//   INVALID_ARGUMENT    the job makes, or made, the other kind of result.
//   FAILED_PRECONDITION no such job, or the folder is not there.
//   other codes         the job's row cannot be read now.
absl::Status PlaceResults(const FindJob& find, JobFiles& files,
                          spec::TrainSpec& spec);

// The model that a submission is checked with whose `model`, `name`, names a
// job that has not succeeded: the one that this job began with, whose shape the
// result will have. Its folder is `name`.
absl::StatusOr<JobFiles::Model> ModelToBe(const FindJob& find, JobFiles& files,
                                          const std::string& name);

// The folders of other jobs that `spec` names as its model and its adapter: a
// worker may read these too. Looks at no file.
std::vector<std::string> ResultsReadBy(const spec::TrainSpec& spec,
                                       const JobFiles& files);

// The prior jobs of a job are those of Job::after: they have to succeed before
// the job starts for the first time.

// Each prior job that exists, with its state.
using PriorStates = std::map<std::string, State>;

// What its prior jobs mean for a job.
struct PriorStanding {
  // OK to start where both are empty. For people; only ids and states, which
  // are public.
  std::string waits;   // for these jobs, which have not ended
  std::string failed;  // why it is to be held; at most limits::kReasonBytes
};

// Whether Job::after counts: of a queued job that no worker has started yet.
bool AwaitsPriors(const Job& job);

PriorStanding StandingOf(const Job& job, const PriorStates& states);

// The ids of job.after without those of jobs that ended without success, or
// exist no more; a job whose result the spec names stays, because the job
// cannot run without the result.
std::vector<std::string> WithoutFailed(const Job& job,
                                       const PriorStates& states);

// Which queued jobs wait for which, and which of them are to be looked at
// because a job they wait for has changed. Only ids, so that the end of a job
// for which many wait costs nothing at once. Thread-safe.
class WaitingJobs {
 public:
  // `id` waits for `priors`; replaces what was known of it.
  void Await(const std::string& id, const std::vector<std::string>& priors);
  void Forget(const std::string& id);
  // Puts those that wait for `prior` among the jobs to look at.
  void Changed(const std::string& prior);
  // Puts one job among them, if it waits.
  void LookAt(const std::string& id);
  // Takes one of the jobs to look at; nullopt where none is left.
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
