// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/step_rate.h"

#include <algorithm>

namespace mpsd::jobs {

void StepRate::Apply(Progress& progress) {
  const double weight = started_ ? kWeight : 1;
  started_ = true;
  tokens_ += weight * (progress.tokens - tokens_);
  seconds_ += weight * (progress.step_seconds - seconds_);
  progress.tokens_per_second = seconds_ > 0 ? tokens_ / seconds_ : 0;
  const int64_t left =
      std::max<int64_t>(progress.total_steps - progress.step, 0);
  progress.eta_seconds = left * seconds_;
}

}  // namespace mpsd::jobs
