// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
#define MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_

#include <cstdint>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// Device memory of a job in pure arithmetic, bytes. The header of the .cc gives
// each formula.
struct MemoryEstimate {
  int64_t base_weights_bytes = 0;
  int64_t adapter_bytes = 0;      // parameters, gradients, two Adam moments
  int64_t activations_bytes = 0;  // of one micro-batch at max_length
  int64_t logits_bytes = 0;       // one LM-head chunk with its gradient
  int64_t total_bytes = 0;
};

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model);

// Trainable parameters of LoRA over `model`, modules_to_save included; 0 where
// no target matches.
int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
