// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_NAMED_RESULTS_H_
#define MPSD_SERVER_JOBS_NAMED_RESULTS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {

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

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_NAMED_RESULTS_H_
