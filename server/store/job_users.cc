// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_users.h"

#include "absl/strings/str_cat.h"
#include "server/jobs/job.h"

namespace mpsd::store {

std::string UserOf(Connection& c, const std::string& id) {
  Query query(c,
              "SELECT id FROM jobs WHERE state IN (?, ?) AND id <> ? "
              "AND (instr(spec_json, ?) > 0 OR instr(spec_json, ?) > 0) "
              "LIMIT 1",
              static_cast<int>(jobs::State::kQueued),
              static_cast<int>(jobs::State::kRunning), id,
              absl::StrCat("/jobs/", id, "/"),
              absl::StrCat("\"job:", id, "\""));
  return query.Next() ? query.Text() : "";
}

}  // namespace mpsd::store
