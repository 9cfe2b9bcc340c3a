// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_mentions.h"

#include <cstddef>

#include "core/base/limits.h"
#include "server/jobs/job_id.h"

namespace mpsd::jobs {

std::set<std::string> JobMentions(std::string_view spec_json) {
  std::set<std::string> ids;
  for (const std::string_view before : {"/jobs/", "\"job:"}) {
    for (size_t at = spec_json.find(before); at != spec_json.npos;
         at = spec_json.find(before, at + 1)) {
      const std::string id(
          spec_json.substr(at + before.size(), limits::kWholeId));
      if (IsJobId(id)) ids.insert(id);
    }
  }
  return ids;
}

std::set<std::string> JobsNeededBy(const Job& job) {
  std::set<std::string> ids = JobMentions(job.spec_json);
  ids.insert(job.after.begin(), job.after.end());
  ids.erase(job.id);
  return ids;
}

}  // namespace mpsd::jobs
