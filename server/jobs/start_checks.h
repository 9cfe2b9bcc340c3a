// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/spec/train_spec.h"
#include "server/jobs/attempt.h"
#include "server/jobs/attempt_end.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

// What must hold before a queued job starts: the jobs that it waits for have
// succeeded, the results that it continues from are there, and so are its files
// and space on the disk.
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

// What a worker of `spec` may read in STATE besides its own job's folder: a
// pushed model, and those folders of the jobs `uses` into which paths lead, as
// a data file's rows name files next to it. Links are resolved now: what a path
// leads to that led elsewhere at Submit is not among them.
std::vector<std::string> ReadInState(const std::set<std::string>& uses,
                                     const spec::TrainSpec& spec,
                                     JobFiles& files);

// Job::input_stamps: a stamp of the files of each field of `spec`.
std::string InputStamps(const spec::TrainSpec& spec, JobFiles& files);
// A warning that names the fields whose files differ from job.input_stamps; ""
// if none does.
std::string ChangedInputs(const Job& job, const spec::TrainSpec& spec,
                          JobFiles& files);

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

// The reasons that keep every queued job from starting: each change is shown by
// the view, exported, and logged. Thread-safe.
class StartBlockers {
 public:
  // `give_up` is called for a failed write that no later one can mend.
  StartBlockers(QueueView& view, ExportedMetrics& exported_metrics,
                Journal& journal,
                std::function<void(const std::string&)> give_up)
      : view_(view),
        exported_metrics_(exported_metrics),
        journal_(journal),
        give_up_(std::move(give_up)) {}

  bool Has(HoldReason reason) const { return view_.holds().contains(reason); }
  // Sets why no queued job starts; "" ends that reason.
  void Set(HoldReason reason, const std::string& why);
  // Returns whether a write to the store succeeded, and holds the queue until a
  // later write does.
  bool Stored(const absl::Status& status);

 private:
  QueueView& view_;
  ExportedMetrics& exported_metrics_;
  Journal& journal_;
  const std::function<void(const std::string&)> give_up_;
};

// Keeps queued jobs from starting until their prior jobs have succeeded. The
// view shows for which jobs a job waits; a job whose prior job did not succeed
// is held in the store. The caller of Await, Look and ForgetFailed holds the
// scheduler's lock, under which rows of queued jobs change; Ended and Take need
// no lock.
class PriorGate {
 public:
  // All must outlive the gate.
  struct Dependencies {
    JobStore& store;
    QueueView& view;
    StartBlockers& blockers;
    Journal& journal;
    const base::Clock& clock;
  };
  explicit PriorGate(const Dependencies& dependencies)
      : dependencies_(dependencies) {}

  // Whether the queued job waits for others; then the queue keeps it from
  // starting and shows why. The job's entry is in the queue.
  bool Await(const Job& job);
  // The job has ended: it waits no longer, and the jobs that wait for it need a
  // check.
  void Ended(const std::string& id);
  // Takes one of the jobs that need a check, for Look; nullopt if none does.
  std::optional<std::string> Take() { return waiting_.Take(); }
  // Checks a waiting job. False if the store does not answer; then the job
  // needs another check.
  bool Look(const std::string& id);
  // For a job that is being released: it no longer waits for jobs that did not
  // succeed, but still for those whose results it needs. The caller stores the
  // row.
  absl::Status ForgetFailed(Job& job);

 private:
  bool Check(const std::string& id);
  bool Hold(Job job, const std::string& why);

  const Dependencies dependencies_;
  WaitingJobs waiting_;
};

// What only files, the disk and the launcher show about a start. A job that
// lacks something waits in the view for a while, which shows the reason, and a
// line in its log names it once. Called without the scheduler's lock, because
// files may hang. One thread at a time.
class StartChecks {
 public:
  struct Options {
    int64_t min_free_bytes = 0;  // as Scheduler::Options
    RetryPolicy retry;
  };
  // All must outlive the checks.
  struct Dependencies {
    JobStore& store;
    JobFiles& files;
    WorkerLauncher& launcher;
    JobRemover& remover;
    QueueView& view;
    StartBlockers& blockers;
    Journal& journal;
    const base::Clock& clock;
  };
  StartChecks(Options options, const Dependencies& dependencies)
      : options_(options), dependencies_(dependencies) {}

  // Whether the machine can start any job. If not, the queue is held.
  bool IsReady();
  // Whether the state folder's disk has the free bytes that a start needs.
  bool HasDisk() const;
  // The next three return false if the job has to wait. Whether its files, and
  // space for a checkpoint, are there; `spec` is the job's.
  bool HasItsFiles(const Job& job, const spec::TrainSpec& spec);
  // Inserts the folders of results into `spec` and into the job's job.json.
  // `spec_json` is the new spec if any was inserted.
  bool TakeResults(const Job& job, spec::TrainSpec& spec,
                   std::string& spec_json);
  // Removes what earlier attempts left.
  bool Clear(const std::string& id);

 private:
  void Wait(const std::string& id, const std::string& why, absl::Duration time);

  const Options options_;
  const Dependencies dependencies_;
};

// What a worker of the job is started with. `spec`: the job's.
LaunchRequest LaunchRequestOf(const Job& job, const spec::TrainSpec& spec,
                              absl::Duration hang_timeout,
                              const JobFiles& files);

}  // namespace mpsd::jobs
