// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_time.h"

#include <algorithm>

#include "core/plan/roofline.h"

namespace mpsd::plan {
namespace {

// Labels per token of an epoch's micro-batches, padding included.
double LabelShare(const Epoch& epoch, double share) {
  return share * (1 - epoch.padding_share());
}

bool Usable(const Rates* rates, bool half) {
  return rates != nullptr && rates->bytes > 0 &&
         (half ? rates->half_operations : rates->fp32_operations) > 0;
}

}  // namespace

const char* NameOf(TimeSource source) {
  switch (source) {
    case TimeSource::kNotTold:
      break;
    case TimeSource::kRoofline:
      return "PLAN_SOURCE_ROOFLINE";
    case TimeSource::kHistory:
      return "PLAN_SOURCE_HISTORY";
    case TimeSource::kProbe:
      return "PLAN_SOURCE_PROBE";
  }
  return "PLAN_SOURCE_UNSPECIFIED";
}

StepTimes::StepTimes(const Job& job, const Rates* rates, const Facts& facts)
    : job_(job),
      rates_(Usable(rates, job.spec.training.bf16) ? rates : nullptr) {
  const StepCosts costs(job.spec, job.model, job.traits);
  const double share = LabelShare(job.epoch, job.label_share);
  for (const auto& [shape, count] : job.epoch.batches) {
    cost_ += costs.Train(shape, share) * static_cast<double>(count);
  }
  const auto steps = static_cast<double>(std::max<int64_t>(job.epoch.steps, 1));
  cost_ = cost_ * (1 / steps);
  cost_ += costs.Optimizer();
  const double mean = AmountOf(job.spec, job.epoch) / steps;
  if (facts.probe && facts.probe->step_seconds > 0) {
    // The probe used the longest rows: its step is not a mean one.
    const spec::TrainingSpec& t = job.spec.training;
    Epoch longest;
    longest.steps = 1;
    const int64_t length =
        job.model.family == spec::Family::kVision ? 1 : job.longest_row;
    longest.batches[{t.per_device_train_batch_size, length}] =
        t.gradient_accumulation_steps;
    factor_ = facts.probe->step_seconds / AmountOf(job.spec, longest);
    source_ = TimeSource::kProbe;
    return;
  }
  if (facts.pace && facts.pace->runs > 0) {
    const double tokens = static_cast<double>(job.epoch.tokens) / steps;
    const bool by_tokens = facts.pace->tokens_per_second > 0 && tokens > 0;
    const double seconds = by_tokens ? tokens / facts.pace->tokens_per_second
                                     : facts.pace->step_seconds;
    if (seconds > 0) {
      factor_ = seconds / mean;
      source_ = TimeSource::kHistory;
      return;
    }
  }
  if (rates_ != nullptr) source_ = TimeSource::kRoofline;
}

double StepTimes::Amount(const StepCost& cost, bool half) const {
  if (rates_ == nullptr) return cost.operations();
  return RooflineSeconds(cost, *rates_, half, job_.traits);
}

double StepTimes::AmountOf(const spec::TrainSpec& spec,
                           const Epoch& epoch) const {
  const StepCosts costs(spec, job_.model, job_.traits);
  const bool half = spec.training.bf16;
  const double share = LabelShare(epoch, job_.label_share);
  double amount = 0;
  for (const auto& [shape, count] : epoch.batches) {
    amount +=
        Amount(costs.Train(shape, share), half) * static_cast<double>(count);
  }
  return amount +
         Amount(costs.Optimizer(), half) * static_cast<double>(epoch.steps);
}

std::optional<double> StepTimes::roofline_seconds() const {
  if (rates_ == nullptr) return std::nullopt;
  return AmountOf(job_.spec, job_.epoch) /
         static_cast<double>(std::max<int64_t>(job_.epoch.steps, 1));
}

std::optional<double> StepTimes::Seconds(const spec::TrainSpec& spec,
                                         const Epoch& epoch) const {
  if (source_ == TimeSource::kNotTold) return std::nullopt;
  return factor_ * AmountOf(spec, epoch);
}

std::optional<double> StepTimes::EvaluationSeconds(const Epoch& epoch) const {
  if (source_ == TimeSource::kNotTold) return std::nullopt;
  const StepCosts costs(job_.spec, job_.model, job_.traits);
  const double share = LabelShare(epoch, job_.label_share);
  double amount = 0;
  for (const auto& [shape, count] : epoch.batches) {
    amount += Amount(costs.Evaluate(shape, share), job_.spec.training.bf16) *
              static_cast<double>(count);
  }
  return factor_ * amount;
}

}  // namespace mpsd::plan
