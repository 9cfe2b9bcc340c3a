// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_IDLE_FIELDS_H_
#define MPSD_CORE_SPEC_IDLE_FIELDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// A field of job.json that changes nothing where another is not as it needs it.
// What would be another job than was meant is refused (train_spec_rules.h);
// what is only idle is said.
struct IdleField {
  std::string_view field;  // "training.recompute_granularity"
  std::string_view reason;
  // Whether it is set in `spec`, to another value than its default, and idle.
  bool (*idle)(const TrainSpec& spec);
};

const std::vector<IdleField>& IdleFields();

// "<field> has no effect: <reason>", for each that is idle in `spec`.
std::vector<std::string> IdleWarnings(const TrainSpec& spec);

// What is worth saying of `spec` with a model of this config: lengths beyond
// its positions, names that nothing of it has.
std::vector<std::string> ModelWarnings(const TrainSpec& spec,
                                       const ModelConfig& config);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_IDLE_FIELDS_H_
