// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RETENTION_PLAN_H_
#define MPSD_SERVER_JOBS_RETENTION_PLAN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/jobs/collector.h"
#include "server/jobs/user_limits.h"

// What the rules of retention remove, and why. Pure: accesses neither a clock
// nor a disk nor a database.
//
// A bound job (pinned, or needed by a job that has not ended) is kept whatever
// the rules, and so are a job that ended within Terms::fresh, so that its
// result can be fetched, and one that ended before 2024 by a wrong clock. If
// there are too many bytes, checkpoints are removed before results: first those
// of jobs that SUCCEEDED, then those from which another job could resume, then
// whole jobs; each time the job that ended first goes first.
namespace mpsd::retention {

enum class Part { kCheckpoints, kJob };
enum class Rule { kAge, kCount, kBytes, kCheckpointAge, kBudget };

struct Removal {
  const jobs::KeptOwner* owner = nullptr;
  const jobs::KeptJob* job = nullptr;
  Part part = Part::kJob;
  Rule rule = Rule::kAge;
  int64_t bytes = 0;
};

struct Terms {
  absl::Time now;
  absl::Duration fresh = absl::Hours(1);
  // Whether `now` may be trusted; if not, ages remove nothing.
  bool ages_count = true;
  // The state folder's budget; 0: none.
  int64_t budget_bytes = 0;
  // The state folder's size; nullopt: unknown, and no budget applies.
  std::optional<int64_t> used_bytes;
};

struct Plan {
  // In the order of removal: checkpoints, then jobs, the job that ended first
  // before others. Point into the owners that were planned for.
  std::vector<Removal> removals;
  int64_t freed_bytes = 0;
  // The state folder's excess over its budget after all removals, and the part
  // of it that pins and the queue keep, and that is too fresh.
  int64_t over_bytes = 0, bound_bytes = 0, fresh_bytes = 0;
};

using RulesOf = std::function<jobs::KeepRules(const std::string& owner)>;

// `owners` must outlive the plan.
Plan MakePlan(const std::vector<jobs::KeptOwner>& owners, const RulesOf& rules,
              const Terms& terms);

// The rule and its figure, human-readable.
std::string Why(const Removal& removal, const jobs::KeepRules& rules,
                const Terms& terms);
// Why the budget cannot be kept; "" if it can.
std::string ShortOf(const Plan& plan, const Terms& terms);

}  // namespace mpsd::retention

#endif  // MPSD_SERVER_JOBS_RETENTION_PLAN_H_
