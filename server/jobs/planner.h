// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_PLANNER_H_
#define MPSD_SERVER_JOBS_PLANNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

struct PlanRequest {
  // As for JobManager::Submit, but that a job which needs more memory than
  // there is gets its plan. Its functions are called on any thread, as long as
  // the plan is made.
  SubmitRequest submission;
  std::map<std::string, double> thresholds;
  // A probe that has SUCCEEDED and that the user may read, and what it found
  // (v1::ProbeResult as JSON); "": none.
  std::string probe_id, probe_json;
  // Whether the user may know how fast jobs of `owner` ran, and how much of
  // them is left. Called likewise. Empty: of everybody's.
  std::function<bool(const std::string& owner)> may_read;
};

// What comes before the job, were it submitted now.
struct PlanQueue {
  int64_t jobs_ahead = 0;
  std::optional<absl::Duration> wait;  // until the start; absent: not told
  std::vector<std::string> not_told;   // why, for people
  std::string why;  // the queue holds, for people; "": it does not
};

struct FinishedPlan {
  std::string json;  // v1::Plan, without its queue
  PlanQueue queue;
};
struct PlanNews {
  std::string stage;                 // for people: "tokenizing"
  std::optional<FinishedPlan> plan;  // with the last news
};

// Follows the making of a plan. Destroying the watch gives the plan up at once,
// without waiting for it. One thread at a time.
class PlanWatch {
 public:
  virtual ~PlanWatch() = default;
  // The next news; nullopt: nothing yet. Nothing comes after a plan. Errors
  // are those of JobManager::Submit, and
  //   DEADLINE_EXCEEDED  the plan took too long.
  //   INTERNAL           the process that plans went wrong.
  virtual absl::StatusOr<std::optional<PlanNews>> Next() = 0;
};

// Tells what a job would need and take, without queueing it. Thread-safe.
class Planner {
 public:
  virtual ~Planner() = default;
  // Begins a plan; does not block. `wake` is called (any thread, must not
  // block) whenever Next may have news, and at times when it has none.
  // UNAVAILABLE, in words, while as many plans are made as may be.
  virtual absl::StatusOr<std::unique_ptr<PlanWatch>> Plan(
      PlanRequest request, std::function<void()> wake) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_PLANNER_H_
