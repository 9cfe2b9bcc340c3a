// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"

namespace mpsd::optim {

enum class ScheduleType {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
};

// The learning rate of a step, equal to transformers.get_scheduler(name, …)
// with that function's default arguments (transformers, optimization.py).
class Schedule {
 public:
  // InvalidArgument for an unknown lr_scheduler_type, listing the known ones.
  static absl::StatusOr<Schedule> Create(const spec::TrainingSpec& spec,
                                         int64_t total_steps);

  // The rate of the optimizer step that follows `step` finished ones, step ≥ 0.
  double LearningRate(int64_t step) const;

  // Fixes the rate of one step to `rate`, which another schedule had planned
  // for it.
  void Pin(int64_t step, double rate) { pinned_ = {step, rate}; }

  int64_t warmup_steps() const { return warmup_; }

 private:
  Schedule(ScheduleType type, double peak, int64_t warmup, int64_t total)
      : type_(type), peak_(peak), warmup_(warmup), total_(total) {}
  double Factor(int64_t step) const;

  ScheduleType type_;
  double peak_;
  int64_t warmup_, total_;
  std::pair<int64_t, double> pinned_{-1, 0};
};

}  // namespace mpsd::optim
