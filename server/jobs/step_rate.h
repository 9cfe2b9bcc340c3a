// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_STEP_RATE_H_
#define MPSD_SERVER_JOBS_STEP_RATE_H_

#include <cstdint>

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

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_STEP_RATE_H_
