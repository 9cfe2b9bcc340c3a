// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_PAST_RUNS_H_
#define MPSD_SERVER_PLANNER_PAST_RUNS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_manager.h"

namespace mpsd::planner {

// How fast runs of one shape were, by the medians of what their last steps
// told.
struct Pace {
  int runs = 0;
  double tokens_per_second = 0;  // without padding, mean of the last steps
  double step_seconds = 0;       // wall time of the last step
  absl::Time newest;             // when the newest of them ended
};

// Looks among the newest 50 jobs that trained `model` (as job.json names it)
// to their end for those of the shape of `spec` on `device`; takes the newest
// ten. Jobs whose owners `may_read` (empty: everybody's) leaves out do not
// count. nullopt: there are none.
std::optional<Pace> PaceOfPastRuns(
    jobs::JobReader& reader, const std::string& model,
    const spec::TrainSpec& spec, const std::string& device,
    const std::function<bool(const std::string& owner)>& may_read);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_PAST_RUNS_H_
