// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_STEP_RATE_H_
#define MPSD_SERVER_JOBS_STEP_RATE_H_

#include <cstdint>

#include "server/jobs/job.h"

namespace mpsd::jobs {

// Speed and time left of one attempt: averages of tokens and seconds a step,
// the last step weighing a tenth. Not thread-safe.
class StepRate {
 public:
  static constexpr double kWeight = 0.1;

  // Fills in what `progress` has beside the worker's report: the shares of its
  // own step, tokens_per_second and eta_seconds with its own step counted.
  // Evaluations and checkpoints still to come are not in the ETA. A share is
  // absent where the worker does not tell its count.
  void Apply(Progress& progress);

 private:
  bool started_ = false;
  double tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_STEP_RATE_H_
