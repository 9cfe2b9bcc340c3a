// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_ALTERNATIVES_H_
#define MPSD_CORE_PLAN_ALTERNATIVES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/host/traits.h"
#include "core/plan/needs.h"
#include "core/plan/step_time.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// The most alternatives of a plan.
inline constexpr size_t kMostAlternatives = 10;

// A job that differs from another in a few fields and fits into memory.
struct Alternative {
  nlohmann::json patch;              // of job.json: a JSON merge patch
  std::vector<std::string> changes;  // human-readable
  std::string note;                  // costs other than time; may be empty
  int64_t memory_bytes = 0;
  std::optional<double> seconds_per_step, train_seconds;
};

// A job that does not fit, with its plan's figures.
struct UnfitJob {
  const spec::TrainSpec& spec;  // with its micro-batch
  const spec::ModelConfig& model;
  const backend::Traits& traits;
  const JobRows& rows;
  const StepTimes& times;
  double epochs;  // that the job trains, as a fraction
};

// The nearest jobs that need at most `limit_bytes`: first those with the fewest
// changes, where one that changes results (a shorter max_length, quantisation)
// counts as two; of these the fastest. Each has, for its kind of change, the
// value nearest to the job's own: the largest micro-batch, with the
// accumulation that keeps the batch; the least recomputation; the largest
// max_length.
std::vector<Alternative> FindAlternatives(const UnfitJob& job,
                                          int64_t limit_bytes);

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_ALTERNATIVES_H_
