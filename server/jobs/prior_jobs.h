// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PRIOR_JOBS_H_
#define MPSD_SERVER_JOBS_PRIOR_JOBS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

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
