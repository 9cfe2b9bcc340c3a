// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/study_calls.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/read_roots.h"
#include "core/base/small_file.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/study_codec.h"

namespace mpsd::rpc {
absl::Status GetStudyResult(jobs::JobReader& reader,
                            const v1::GetStudyResultRequest& request,
                            v1::StudyResult& response) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  ASSIGN_OR_RETURN(const jobs::Job job, reader.Get(request.id()));
  if (!jobs::IsStudy(job.kind)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id,
        " is a training job: `mpsctl show` and `mpsctl report` show ",
        "it, and `mpsctl download` gets its result"));
  }
  if (job.state != jobs::State::kSucceeded) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, ", a ", std::string(jobs::Name(job.kind)),
                     ", is ", std::string(jobs::Name(job.state)),
                     ": it has a result once it has SUCCEEDED"));
  }
  // The worker wrote it: a link that it made must not lead elsewhere.
  const base::ReadRoots own({job.output_path});
  ASSIGN_OR_RETURN(const std::string json,
                   base::ReadSmallFile(
                       std::filesystem::path(job.output_path) / "result.json",
                       limits::kStudyResultBytes, &own));
  absl::Status decoded = DecodeStudyResult(job.kind, json, response);
  response.set_job_id(job.id);
  return decoded;
}

}  // namespace mpsd::rpc
