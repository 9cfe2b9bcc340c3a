// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// A field of job.json that has no effect unless another field has a certain
// value. A combination that would run another job than intended is rejected
// (ParseTrainSpec); a field without effect is only reported.
struct IdleField {
  std::string_view field;  // "training.recompute_granularity"
  std::string_view reason;
  // Whether `spec` sets the field to a value other than its default and the
  // field has no effect.
  bool (*idle)(const TrainSpec& spec);
};

const std::vector<IdleField>& IdleFields();

// "<field> has no effect: <reason>", for each idle field of `spec`.
std::vector<std::string> IdleWarnings(const TrainSpec& spec);

// Warnings about `spec` with a model of this config: lengths beyond the model's
// positions, names that no module of the model has.
std::vector<std::string> ModelWarnings(const TrainSpec& spec,
                                       const ModelConfig& config);

}  // namespace mpsd::spec
