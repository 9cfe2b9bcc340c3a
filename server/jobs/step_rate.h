// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_STEP_RATE_H_
#define MPSD_SERVER_JOBS_STEP_RATE_H_

#include <optional>

#include "absl/time/time.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// The speed and remaining time of one attempt, from averages of tokens and
// seconds a step in which the last step weighs a tenth. Not thread-safe.
class StepRate {
 public:
  static constexpr double kWeight = 0.1;

  // Fills in the fields of `progress` that the worker does not report: the
  // shares of this step, and tokens_per_second and eta_seconds with this step
  // counted. The ETA leaves out evaluations and checkpoints to come. A share is
  // absent where the worker does not report its count.
  void Apply(Progress& progress);

 private:
  bool started_ = false;
  double tokens_ = 0;
  double seconds_ = 0;
};

// The time that the job still trains, at the pace of its last step, from its
// last checkpoint on: there another attempt would go on. Evaluations and
// checkpoints are left out. nullopt where no step of the job has finished.
std::optional<absl::Duration> TimeLeft(const Job& job);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_STEP_RATE_H_
