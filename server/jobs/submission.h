// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_SUBMISSION_H_
#define MPSD_SERVER_JOBS_SUBMISSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/prior_jobs.h"

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
  std::string name, model;  // as the spec has them
  std::string spec_json;    // with every default; paths as the worker gets them
  // The jobs whose results the spec names (prior_jobs.h).
  std::vector<std::string> named_jobs;
  std::vector<JobFiles::Link> links;
  std::string note;  // human-readable: estimated device memory
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
                                           JobFiles& files, BlobStore& blobs,
                                           const MachineMemory& memory = {},
                                           const FindJob& find_job = {});

// SHA-256 of the request's meaning: the order of JSON keys or inputs and white
// space do not change the hash.
std::string RequestHash(const SubmitRequest& request);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SUBMISSION_H_
