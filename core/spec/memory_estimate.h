// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// The most that a step's inputs take on the device at a time, unless one
// micro-batch is larger.
inline constexpr int64_t kStepInputBytes = int64_t{64} << 20;

// Device memory of a job by arithmetic, bytes; memory_estimate.cc has the
// formulas, tests/live/memory and tests/bench compare them with real runs.
//
//   base      the frozen weights in training precision; of a model trained in
//             full, with bf16, the copies of its weights
//   trainable value, gradient and two moments, fp32
//   activations  what the layers keep of a micro-batch for their backward
//   logits    of the labels computed at a time, with their gradient
//   backward  the layer recomputed by checkpointing, and the temporaries of one
//             layer's backward. Logits and these are not held at the same time:
//             the larger counts
//   evaluation  of per_device_eval_batch_size rows (on MPS, which "auto" counts
//             as, at most a micro-batch). An evaluation and a step's
//             activations are not held at the same time: the larger counts
//   inputs    a step's, which go to the device together
//
// A micro-batch is per_device_train_batch_size rows of max_length tokens (twice
// as many of preferences, whose rows are pairs of answers); an
// image is (image_size / patch_size)² + 1 tokens. Attention is tiled: nothing
// grows with the square of the length.
struct MemoryEstimate {
  int64_t base_weights_bytes = 0;
  int64_t trainable_bytes = 0;    // parameters, gradients, two Adam moments
  int64_t activations_bytes = 0;  // of a micro-batch at max_length
  int64_t logits_bytes = 0;       // one LM-head chunk with its gradient
  int64_t backward_bytes = 0;     // one layer's temporaries, recomputation
  int64_t evaluation_bytes = 0;   // of a micro-batch, without weights
  int64_t inputs_bytes = 0;       // of a step
  bool keeps_logits = false;      // in addition to backward and evaluations
  // Of what a step, without its logits, or an evaluation frees, the part that
  // the CPU's allocator keeps in pieces too small for the next request; 0 on a
  // GPU, whose caching allocator hands blocks out again.
  double heap_share = 0;
  int64_t heap_bytes = 0;
  int64_t total_bytes = 0;

  // Computes heap_bytes and total_bytes from the others.
  void Add();
};

// The estimate for the device that the job names, or for a device with these
// traits.
MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model);
MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model,
                              const backend::Traits& traits);

// The number of parameters that spec.fine_tune_type trains in `model`,
// including LoRA's modules_to_save; 0 if no target matches. For classification
// model.num_labels must be set.
int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model);

}  // namespace mpsd::spec
