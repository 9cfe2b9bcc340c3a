// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BEST_EVALUATION_H_
#define MPSD_SERVER_JOBS_BEST_EVALUATION_H_

#include <string>

#include "server/jobs/job.h"

namespace mpsd::jobs {

// What a job's evaluations are compared by: training.metric_for_best_model and
// training.greater_is_better of its spec.
struct Goal {
  std::string metric;  // of Evaluated::metrics; "": the loss
  bool greater = false;
};

// The loss for a spec that cannot be read.
Goal GoalOf(const std::string& spec_json);

// Whether `evaluated` is better than `best`; never where it lacks the metric or
// has no number for it, always where only `best` does.
bool IsBetter(const Evaluated& evaluated, const Evaluated& best,
              const Goal& goal);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BEST_EVALUATION_H_
