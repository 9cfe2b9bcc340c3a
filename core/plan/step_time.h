// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_STEP_TIME_H_
#define MPSD_CORE_PLAN_STEP_TIME_H_

#include <optional>
#include <string>

#include "core/host/traits.h"
#include "core/plan/epoch.h"
#include "core/plan/facts.h"
#include "core/plan/step_cost.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// The source of a time, as PlanSource of proto/mpsd/v1/plan.proto.
enum class TimeSource { kNotTold, kRoofline, kHistory, kProbe };

// "PLAN_SOURCE_ROOFLINE" …, as in the API's JSON.
const char* NameOf(TimeSource source);

// Estimates the step times of the job and of jobs that differ from it.
class StepTimes {
 public:
  // Properties of a mean step of the job.
  struct Job {
    const spec::TrainSpec& spec;  // with its micro-batch
    const spec::ModelConfig& model;
    const backend::Traits& traits;
    const Epoch& epoch;
    int64_t longest_row;  // tokens, with padding
    // Labels per token without padding, 0 to 1.
    double label_share;
  };

  // A probe takes precedence over the history, and the history over the
  // roofline. `rates`: the device's; null: unknown. `job` and `rates` must
  // outlive this object.
  StepTimes(const Job& job, const Rates* rates, const Facts& facts);

  TimeSource source() const { return source_; }
  // The mean step of the job's epoch.
  const StepCost& cost() const { return cost_; }
  // By the roofline alone, independent of source().
  std::optional<double> roofline_seconds() const;
  // Seconds of a whole epoch of `spec`, which may differ from the job in its
  // micro-batch, recomputation, lengths and sampling; nullopt if no time is
  // known.
  std::optional<double> Seconds(const spec::TrainSpec& spec,
                                const Epoch& epoch) const;
  // Seconds of a pass over `epoch` without gradients.
  std::optional<double> EvaluationSeconds(const Epoch& epoch) const;

 private:
  // What the times are proportional to: seconds of the roofline, or operations
  // if no rates are known.
  double Amount(const StepCost& cost, bool half) const;
  double AmountOf(const spec::TrainSpec& spec, const Epoch& epoch) const;

  const Job job_;
  const Rates* const rates_;
  StepCost cost_;
  TimeSource source_ = TimeSource::kNotTold;
  double factor_ = 1;  // seconds per unit of Amount
};

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_STEP_TIME_H_
