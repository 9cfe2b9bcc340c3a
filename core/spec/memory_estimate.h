// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
#define MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_

#include <cstdint>

#include "core/host/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// The most that a step's inputs take on the device at a time, unless one
// micro-batch is larger.
inline constexpr int64_t kStepInputBytes = int64_t{64} << 20;

// Device memory of a job by arithmetic, bytes. b is the size of a number in the
// frozen base and its activations (2 with bf16, else 4), T the tokens of a
// micro-batch (per_device_train_batch_size · max_length), L the layers, H
// hidden_size, I intermediate_size, Q and KV the widths of queries and keys.
//
//   base      parameters · b. Quantised linears (quantization_config) count
//             their codes and scales instead, and 10 bytes a value of the
//             largest one while its dense form is made. A model trained in full
//             counts only, with bf16, its blocks' casts that the backward keeps
//   trainable trainable parameters · 16: value, gradient, two moments, fp32
//   layer     the bytes a token that a layer keeps. The explicit step
//             (core/explicit_step): (2H + 2Q + 2KV + 2I) · b + 4 · heads; with
//             norms of q and k (Q + KV) · b more
//             Autograd of a decoder: norms H · 2(4 + b), trained ones 8H more;
//             4I · b; q, k, v and the attention's output 4Q · b, where tiled
//             (2Q + 2KV) · 4 + Q · b; 4 · heads
//             An encoder: (8H + 2I) · b + 4 · heads, with ReLU one I; with
//             dropout 2H masks more, each a byte or, on the CPU, b; with
//             attention dropout heads · length · (2b + a mask) more, except on
//             CUDA; else where it is tiled 4H · (4 − b). Its last layer saves
//             (3H + 2I) · b: only the first token continues
//             With LoRA, except on MPS, less the inputs of linears without an
//             adapter: a frozen one keeps none
//   LoRA      per token and match 4r, with dropout the mask of in_features
//             bytes; under autograd, with dropout or bf16, 4 · in_features more
//   activations  T · (2H·b + layers · layer + LoRA); in the explicit step only
//             layers from the lowest adapter on. With gradient_checkpointing
//             H·b for each of them, and LoRA in the explicit step; selective:
//             all layers without the MLP's 2I
//   logits    of the labels computed at a time: in the explicit step 10 bytes a
//             logit, 8 where softmax is in place; on the CPU in fp32 4, which
//             are kept, so that they add to all else; under autograd fp32
//             logits with what they are derived from, and a trained head's
//             gradient; a classifier: rows · labels · 12
//   backward  the layer recomputed by checkpointing, and the temporaries of one
//             layer's backward: under autograd T · (2I + 2H) · b and the
//             largest weight's gradient; in the explicit step T · (3I + 3H) ·
//             b, and for the attention, unless CUDA's kernels compute it, S ·
//             3b for a block's S = rows · heads · length · QueriesPerBlock
//             scores: probabilities, their gradient and the scores' gradient;
//             on the CPU the larger of the two. The block's masks have as many
//             numbers as one head's scores; for packed rows rows · length²
//             more, on a device whose products add masks (MPS) a group's, at
//             most kMostKeptMasks. Logits and these temporaries are not held at
//             the same time: the larger counts
//   evaluation  for E tokens (per_device_eval_batch_size · max_length; on MPS,
//             which "auto" counts as, at most T): E · (4H + 2Q + 2KV + 3I) · b,
//             where attention is tiled E · (2Q + 2KV) · 4 more; an encoder's
//             E · (4H + 2I) · b, with an image's pixels; or the logits, if
//             more, with 3 E · H · b. An evaluation and a step's activations
//             are not held at the same time: the larger counts
//   inputs    a step's inputs, which go to the device together: five integers
//             of 8 bytes a token, or an image's pixels in fp32; at most
//             kStepInputBytes, or one micro-batch if larger. On MPS, which
//             "auto" counts as, the host's copy is in the same memory: twice
//
// An image is (image_size / patch_size)² + 1 tokens. A head trained alone keeps
// one layer. Except where noted, attention is tiled: nothing grows with the
// square of the length.
struct MemoryEstimate {
  int64_t base_weights_bytes = 0;
  int64_t trainable_bytes = 0;    // parameters, gradients, two Adam moments
  int64_t activations_bytes = 0;  // of a micro-batch at max_length
  int64_t logits_bytes = 0;       // one LM-head chunk with its gradient
  int64_t backward_bytes = 0;     // one layer's temporaries, recomputation
  int64_t evaluation_bytes = 0;   // of a micro-batch, without weights
  int64_t inputs_bytes = 0;       // of a step
  bool keeps_logits = false;      // in addition to backward and evaluations
  int64_t total_bytes = 0;

  // Computes total_bytes from the others.
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

#endif  // MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
