// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/start_checks.h"
#include "server/jobs/user_limits.h"
#include "server/store/blob_store.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

namespace mpsd::jobs {

// The memory that a job may take, in bytes; 0 if unknown.
struct MachineMemory {
  int64_t host_bytes = 0;
  std::string device;  // the last worker's: "mps", "cuda", "cpu"; or empty
  // the most that the system recommends for the device
  int64_t device_bytes = 0;
};

// The least memory in bytes that the job can run with: auto_find_batch_size
// goes down to single rows whose layers are computed again.
int64_t LeastMemory(spec::TrainSpec spec, const spec::ModelConfig& model);

// The memory of the job's device in bytes; 0 if unknown.
int64_t MemoryFor(const MachineMemory& memory, spec::DeviceChoice device);

// A request that passed every check that is possible before a worker starts.
struct Submission {
  std::string name;       // the spec's, else made of its model and data
  bool named = false;     // by the spec
  std::string model;      // as the spec has it
  std::string spec_json;  // with every default; paths as the worker gets them
  // The jobs whose results the spec names (start_checks.h).
  std::vector<std::string> named_jobs;
  std::set<std::string> uses;  // as in Job, likewise input_stamps
  std::string input_stamps;
  std::vector<JobFiles::Link> links;
  std::string note;  // human-readable: estimated device memory
  // The folder that `model` means now; empty if it names one, or a revision.
  std::string model_folder;
  // Estimates in bytes: the least device memory (where the trainer may choose
  // the layout), and a checkpoint.
  int64_t memory_bytes = 0;
  int64_t checkpoint_bytes = 0;
  // Keeps a pushed model until the job's row does.
  std::shared_ptr<const void> model_lease;

  // The job of `request`, except its id, its time, its request's hash and the
  // jobs that it waits for.
  Job MakeJob(const SubmitRequest& request) const;
};

// Checks `request` and replaces the paths that its inputs cover by those below
// the folder of `job_id`, which need not exist yet.
//   INVALID_ARGUMENT    the spec; a relative path that was not uploaded; an
//                       input the spec does not name; a model architecture
//                       mpsd does not have, or not for this task.
//   FAILED_PRECONDITION a blob, a file or a model this machine does not have;
//                       a job that needs more than `memory`, unless
//                       request.anyway; a job named for its result that
//                       `find_job` does not have.
absl::StatusOr<Submission> CheckSubmission(const SubmitRequest& request,
                                           const std::string& job_id,
                                           JobFiles& files, Blobs& blobs,
                                           const MachineMemory& memory = {},
                                           const FindJob& find_job = {});

// SHA-256 of the request's meaning: the order of JSON keys or inputs and white
// space do not change the hash.
std::string RequestHash(const SubmitRequest& request);

// The error of a submission to an mpsd that stops.
absl::Status Stopping();

// ResourceExhausted if the owner's jobs have reached the bytes that `limits`
// allow. `ledger` may be null: nothing is counted then.
absl::Status CheckResultBytes(UserLedger* ledger, const std::string& owner,
                              const UserLimits& limits);

// Makes jobs of requests: all of Scheduler::Submit except the row. Checks and
// copies files without the scheduler's lock. Thread-safe.
class Submitter {
 public:
  // All must outlive the submitter.
  struct Dependencies {
    JobStore& store;
    Blobs& blobs;
    JobFiles& files;
    const QueueView& view;
    const base::Clock& clock;
    FolderClaims& claims;
    UserLedger* ledger;                 // null if no user has limits of bytes
    const std::atomic<bool>& stopping;  // once true, no more jobs are made
  };
  // A future job, and what its insertion needs.
  struct NewJob {
    Job job;
    Submission checked;
  };
  // Stores the row of `made` and queues the job, whose folder exists. `watch`
  // began before the job's files were checked.
  using Insert =
      std::function<absl::Status(NewJob& made, const UserLimits& limits,
                                 const FolderClaims::Watch& watch)>;

  // `machine_bytes`: as Scheduler::Options.
  Submitter(int64_t machine_bytes, JobIdGenerator::Random random,
            const Dependencies& dependencies)
      : machine_bytes_(machine_bytes),
        dependencies_(dependencies),
        ids_(dependencies.clock, std::move(random)) {}

  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request,
                                      const Insert& insert);

 private:
  // The job that an earlier request with the same idempotency key made, if any.
  absl::StatusOr<std::optional<SubmitResult>> FindEarlier(
      const SubmitRequest& request, const std::string& hash);
  // OK while a job may be made of `request`: a caller waits for it, and mpsd is
  // not stopping.
  absl::Status CheckAccepts(const SubmitRequest& request);
  // Checks a user's limits before the disk is accessed.
  absl::Status CheckLimits(const SubmitRequest& request);
  absl::Status CountInputs(const SubmitRequest& request);
  // Performs all checks of Submit except the user's limits, and assigns the
  // job's id. Makes no folder and no row.
  absl::StatusOr<NewJob> MakeJob(const SubmitRequest& request,
                                 const std::string& hash);
  absl::Status MakeNameUnique(Job& job) const;
  // Notes that the model's name means other files than in the owner's last job.
  absl::Status NoteNewFiles(const Job& job, Submission& checked);
  MachineMemory Memory() const;
  // Reads the jobs that the submitter may read. `request` must outlive the
  // result.
  FindJob ReadableJobs(const SubmitRequest& request);
  // Job::after of the future job: `named`, the jobs whose results its spec
  // names, and request.after.
  absl::StatusOr<std::vector<std::string>> PriorsOf(
      const SubmitRequest& request, const std::vector<std::string>& named);

  const int64_t machine_bytes_;
  const Dependencies dependencies_;
  JobIdGenerator ids_;
};

}  // namespace mpsd::jobs
