// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_STEP_TIME_H_
#define MPSD_CORE_PLAN_STEP_TIME_H_

#include <optional>
#include <string>

#include "core/backend/traits.h"
#include "core/plan/epoch.h"
#include "core/plan/facts.h"
#include "core/plan/step_cost.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// Where a time comes from, as PlanSource of proto/mpsd/v1/plan.proto.
enum class TimeSource { kNotTold, kRoofline, kHistory, kProbe };

// "PLAN_SOURCE_ROOFLINE" …, as the API's JSON spells it.
const char* NameOf(TimeSource source);

// Tells how long the job's steps take, and steps of jobs that differ from it.
class StepTimes {
 public:
  // What a mean step of the job is like.
  struct Job {
    const spec::TrainSpec& spec;  // with its micro-batch
    const spec::ModelConfig& model;
    const backend::Traits& traits;
    const Epoch& epoch;
    int64_t longest_row;  // tokens, padding included
    // Labels among the tokens that are no padding, 0 to 1.
    double label_share;
  };

  // A probe is believed before the history, and that before the roofline.
  // `rates`: the device's; null: not told. `job` and `rates` must outlive it.
  StepTimes(const Job& job, const Rates* rates, const Facts& facts);

  TimeSource source() const { return source_; }
  // A mean step of the job, of its epoch.
  const StepCost& cost() const { return cost_; }
  // By the roofline alone, whatever source() is.
  std::optional<double> roofline_seconds() const;
  // Seconds of a whole epoch of `spec`, which may differ from the job in its
  // micro-batch, recomputation, lengths and sampling; nullopt where no time is
  // told.
  std::optional<double> Seconds(const spec::TrainSpec& spec,
                                const Epoch& epoch) const;
  // Seconds of a pass over `epoch` without gradients.
  std::optional<double> EvaluationSeconds(const Epoch& epoch) const;

 private:
  // What the times are proportional to: seconds of the roofline, or operations
  // where no rates are told.
  double Amount(const StepCost& cost, bool half) const;
  double AmountOf(const spec::TrainSpec& spec, const Epoch& epoch) const;

  const Job job_;
  const Rates* const rates_;
  StepCost cost_;
  TimeSource source_ = TimeSource::kNotTold;
  double factor_ = 1;  // seconds for one unit of Amount
};

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_STEP_TIME_H_
