// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/find_jobs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"

namespace mpsd::rpc {
namespace {

absl::Status CheckPart(const std::string& part) {
  if (part.size() >= limits::kIdPart && part.size() <= limits::kWholeId &&
      std::all_of(part.begin(), part.end(), absl::ascii_isalnum)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "id_part: must be ", limits::kIdPart, " to ", limits::kWholeId,
      " letters and digits of a job's id, the first or the last ones"));
}

}  // namespace

absl::Status FindJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::FindJobsRequest& request,
                      v1::FindJobsResponse& response) {
  RETURN_IF_ERROR(CheckPart(request.id_part()));
  const std::string part = absl::AsciiStrToUpper(request.id_part());
  ASSIGN_OR_RETURN(std::vector<jobs::FoundJob> found,
                   reader.FindByIdPart(part, limits::kFoundJobs + 1));
  if (request.past() && records != nullptr) {
    ASSIGN_OR_RETURN(
        const std::vector<jobs::FoundJob> past,
        records->past().FindByIdPart(part, limits::kFoundJobs + 1));
    for (const jobs::FoundJob& job : past) {
      if (rights.MayRead(job.owner)) found.push_back(job);
    }
  }
  response.set_more(found.size() > limits::kFoundJobs);
  if (found.size() > limits::kFoundJobs) found.resize(limits::kFoundJobs);
  for (const jobs::FoundJob& job : found) {
    v1::Job& out = *response.add_jobs();
    out.set_id(job.id);
    if (rights.MayRead(job.owner)) out.set_name(job.name);
    out.set_state(static_cast<v1::JobState>(job.state));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
