// SPDX-License-Identifier: Apache-2.0
#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::optim {
namespace {

struct TypeName {
  const char* name;
  ScheduleType type;
};
constexpr TypeName kTypes[] = {
    {"linear", ScheduleType::kLinear},
    {"cosine", ScheduleType::kCosine},
    {"cosine_with_restarts", ScheduleType::kCosineWithRestarts},
    {"polynomial", ScheduleType::kPolynomial},
    {"constant", ScheduleType::kConstant},
    {"constant_with_warmup", ScheduleType::kConstantWithWarmup},
    {"inverse_sqrt", ScheduleType::kInverseSqrt},
};

// get_polynomial_decay_schedule_with_warmup's lr_end, an absolute rate.
constexpr double kPolynomialEnd = 1e-7;

}  // namespace

absl::StatusOr<Schedule> Schedule::Create(const spec::TrainingSpec& spec,
                                          int64_t total_steps) {
  std::string known;
  for (const TypeName& t : kTypes) {
    if (spec.lr_scheduler_type == t.name) {
      // TrainingArguments.get_warmup_steps
      const double steps =
          spec.warmup_steps > 0 ? spec.warmup_steps : spec.warmup_ratio;
      const bool is_share = spec.warmup_steps < 1;
      const auto warmup = static_cast<int64_t>(
          is_share ? std::ceil(static_cast<double>(total_steps) * steps)
                   : steps);
      return Schedule(t.type, spec.learning_rate, warmup, total_steps);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", t.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("training.lr_scheduler_type: \"", spec.lr_scheduler_type,
                   "\" is not one of ", known));
}

double Schedule::LearningRate(int64_t step) const {
  base::CheckAtMost(0, step, "a step of the schedule");
  return step == pinned_.first ? pinned_.second : peak_ * Factor(step);
}

// In Transformers' order of operations.
double Schedule::Factor(int64_t step) const {
  if (type_ == ScheduleType::kConstant) return 1;
  if (step < warmup_) {
    return static_cast<double>(step) / std::max<int64_t>(1, warmup_);
  }
  const double progress = static_cast<double>(step - warmup_) /
                          std::max<int64_t>(1, total_ - warmup_);
  switch (type_) {
    case ScheduleType::kLinear:
      return std::max(0.0, static_cast<double>(total_ - step) /
                               std::max<int64_t>(1, total_ - warmup_));
    case ScheduleType::kCosine:
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    case ScheduleType::kCosineWithRestarts:
      if (progress >= 1) return 0;
      return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi *
                                               std::fmod(progress, 1.0))));
    case ScheduleType::kPolynomial:
      if (step > total_) return kPolynomialEnd / peak_;
      return ((peak_ - kPolynomialEnd) * (1 - progress) + kPolynomialEnd) /
             peak_;
    case ScheduleType::kInverseSqrt: {
      const double timescale = warmup_ > 0 ? warmup_ : 10'000;
      const double shift = timescale - warmup_;
      return 1 / std::sqrt((step + shift) / timescale);
    }
    case ScheduleType::kConstant:
    case ScheduleType::kConstantWithWarmup:
      return 1;
  }
  return 1;
}

}  // namespace mpsd::optim
