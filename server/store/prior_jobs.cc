// SPDX-License-Identifier: Apache-2.0
#include "server/store/prior_jobs.h"

namespace mpsd::store {

std::map<std::string, jobs::State> StatesOf(Connection& c,
                                            absl::Span<const std::string> ids) {
  std::map<std::string, jobs::State> states;
  for (const std::string& id : ids) {
    Query query(c, "SELECT state FROM jobs WHERE id = ?", id);
    if (query.Next()) states[id] = static_cast<jobs::State>(query.Int());
  }
  return states;
}

void ForgetSuccess(Connection& c, const std::string& id) {
  // A list that is damaged, and no JSON, keeps nobody's job from deletion.
  Query(c,
        "UPDATE jobs SET after_jobs = (SELECT json_group_array(value) "
        "FROM json_each(after_jobs) WHERE value <> ?) "
        "WHERE state = ? AND instr(after_jobs, ?) > 0 "
        "AND json_valid(after_jobs)",
        id, static_cast<int>(jobs::State::kQueued), id)
      .Run();
}

}  // namespace mpsd::store
