// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_SUBMISSION_H_
#define MPSD_SERVER_JOBS_SUBMISSION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// A request that will run: everything that can be known to be wrong before a
// worker starts has been looked at.
struct Submission {
  std::string name;
  std::string spec_json;  // defaulted, paths as the worker gets them
  std::vector<JobFiles::Link> links;
  std::string note;  // for people: the estimated device memory
};

// Checks `request` and replaces the paths that its inputs cover by those below
// the folder of `job_id`, which need not exist yet.
//   INVALID_ARGUMENT    the spec; a relative path that was not uploaded; an
//                       input the spec does not name; a model architecture
//                       mpsd does not have, or not for this task.
//   FAILED_PRECONDITION a blob, a file or a model this machine does not have.
absl::StatusOr<Submission> CheckSubmission(const SubmitRequest& request,
                                           const std::string& job_id,
                                           JobFiles& files, BlobStore& blobs);

// SHA-256 of the request's meaning: neither the order of JSON keys or inputs
// nor white space changes it.
std::string RequestHash(const SubmitRequest& request);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SUBMISSION_H_
