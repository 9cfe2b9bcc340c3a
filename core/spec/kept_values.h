// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_KEPT_VALUES_H_
#define MPSD_CORE_SPEC_KEPT_VALUES_H_

#include "core/host/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

// The part of EstimateMemory (memory_estimate.h has the formulas) that a
// forward keeps for its backward.
namespace mpsd::spec {

// The bytes per number of the frozen base and its activations.
double BaseBytes(const TrainSpec& spec);

// The tokens per row of max_length.
double TokensPerRow(const TrainSpec& spec, const ModelConfig& model);

bool UsesExplicitStep(const TrainSpec& spec, const ModelConfig& model);

// A micro-batch's values between forward and backward, bytes per token.
struct Kept {
  double all = 0;    // of all layers together
  double layer = 0;  // of the recomputed layer, in addition
};
Kept KeptPerToken(const TrainSpec& spec, const ModelConfig& model,
                  const backend::Traits& traits);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_KEPT_VALUES_H_
