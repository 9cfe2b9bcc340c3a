// SPDX-License-Identifier: Apache-2.0
#include "core/study/study_progress.h"

#include <algorithm>

namespace mpsd::study {

void StudyProgress::Add(report::Progress step) {
  step.step = ++done_;
  step.total_steps = std::max(total_steps_, done_);
  observer_.OnStep(step);
}

}  // namespace mpsd::study
