// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_plan.h"

#include <algorithm>

namespace mpsd::study {
std::optional<StepKind> ProfilePlan::Next() const {
  if (left_ == 0) return std::nullopt;
  return next_;
}

void ProfilePlan::Taken() {
  ++taken_;
  ++in_part_;
  const auto go_on = [this](StepKind next) {
    next_ = next;
    in_part_ = 0;
  };
  switch (next_) {
    case StepKind::kWarmUp:
      if (in_part_ == warm_up_) go_on(StepKind::kPlain);
      break;
    case StepKind::kPlain:
      if (in_part_ == kPlainSteps) go_on(StepKind::kProfiled);
      break;
    case StepKind::kProfiled:
      --left_;
      if (in_part_ == session_) go_on(StepKind::kPlain);
      break;
  }
}

void ProfilePlan::Note(int64_t events, int64_t steps) {
  const int64_t each =
      std::max<int64_t>(events / std::max<int64_t>(steps, 1), 1);
  session_ = std::clamp<int64_t>(kSessionEvents / each, 1, kSessionSteps);
}

int64_t ProfilePlan::total() const {
  // The sessions to come, and what this one still needs.
  int64_t total = taken_ + left_;
  int64_t profiled = left_;
  switch (next_) {
    case StepKind::kWarmUp:
      total += warm_up_ - in_part_ + kPlainSteps;
      break;
    case StepKind::kPlain:
      if (left_ > 0) total += kPlainSteps - in_part_;
      break;
    case StepKind::kProfiled:
      profiled += in_part_;
      break;
  }
  const int64_t sessions = (profiled + session_ - 1) / session_;
  return total + std::max<int64_t>(sessions - 1, 0) * kPlainSteps;
}

}  // namespace mpsd::study
