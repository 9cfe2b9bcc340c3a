// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
#define MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_

#include <cstdint>

#include "core/backend/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// The most that a step's inputs take on the device at a time, unless one
// micro-batch is larger.
inline constexpr int64_t kStepInputBytes = int64_t{64} << 20;

// Device memory of a job in pure arithmetic, bytes. b is the size of a number
// in the frozen base and its activations (2 with bf16, else 4), T the tokens of
// a micro-batch (per_device_train_batch_size · max_length), L the layers, H
// hidden_size, I intermediate_size, Q and KV the widths of queries and keys.
//
//  base      parameters · b. Quantised linears (quantization_config) count
//  their
//            codes and scales instead, and 10 bytes a value of the largest one
//            while its dense form is being made. A model trained in full counts
//            only, with bf16, the casts of the trained weights that the
//            backward keeps
//  trainable trainable parameters · 16: value, gradient, two Adam moments, fp32
//  layer     the bytes a token that autograd keeps of a decoder's layer:
//            (4H [input and output of both norms] + 2Q + 2KV [q, k, v and the
//            attention's output] + 4I [gate, up, silu(gate), their product]) ·
//            b
//            + 4 · heads [log-sum-exp]
//            For a frozen decoder with adapters, whose backward is written out
//            (core/explicit_step): (2H + 2Q + 2KV + 2I) · b + 4 · heads
//            For an encoder: (8H [input, q, k, v, the attention's output,
//            both sums before the norms, the norm between] + 2I) · b
//            + 4 · heads; with dropout 2H more; with dropout of the attention
//            heads · length · (2b + 1) more, since that attention is not tiled
//  LoRA      per token and match 4r [x·Aᵀ], with dropout 4 · in_features more
//  activations  T · (2H·b + L · layer + LoRA). With gradient_checkpointing
//            T · (2H·b + L · H·b + one layer with its LoRA); selective: all
//            layers without the MLP's 2I, and 2I of one layer
//  logits    min(T, 1024) · vocab_size · 3 · 4: a chunk of the LM head in fp32,
//            its log-softmax and its gradient; a classifier: rows · labels
//  backward  the temporaries of one layer's backward in core/explicit_step:
//            T · (3I + 3H) · b, and for the attention, unless CUDA's kernels
//            compute it, S · 3b for a block's S = rows · heads · length ·
//            QueriesPerBlock scores: probabilities, their gradient and the
//            scores' gradient. The block's masks have as many numbers as one
//            head's scores; for packed rows, and on a device whose products add
//            masks (MPS), up to kMostKeptMasks more. Logits and these
//            temporaries are not held at the same time: the larger counts
//  evaluation  for E tokens (per_device_eval_batch_size · max_length; on MPS,
//            which "auto" counts as, at most T): E · (4H + 2Q + 2KV + 3I) · b,
//            where attention is tiled E · (2Q + 2KV) · 4 more, and logits.
//            An evaluation and a step's activations are not held at the same
//            time: the larger counts
//  inputs    the inputs of a step, which go to the device together: five
//            integers of 8 bytes a token, or an image's pixels in fp32; at most
//            kStepInputBytes, or one micro-batch if larger. On MPS, which
//            "auto" counts as, the host's copy lies in the same memory: twice
//
// An image is (image_size / patch_size)² + 1 tokens. A head trained alone keeps
// one layer. Except where stated attention is tiled: nothing grows with the
// square of the length.
struct MemoryEstimate {
  int64_t base_weights_bytes = 0;
  int64_t trainable_bytes = 0;    // parameters, gradients, two Adam moments
  int64_t activations_bytes = 0;  // a micro-batch at max_length
  int64_t logits_bytes = 0;       // one LM-head chunk with its gradient
  int64_t backward_bytes = 0;     // one layer's temporaries
  int64_t evaluation_bytes = 0;   // a micro-batch's, no weights
  int64_t inputs_bytes = 0;       // a step's
  int64_t total_bytes = 0;
};

// The estimate for the device that the job names, or for a device with these
// traits.
MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model);
MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model,
                              const backend::Traits& traits);

// The number of parameters that spec.fine_tune_type trains in `model`, with
// LoRA those of modules_to_save included; 0 where no target matches. For
// classification model.num_labels must be set.
int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
