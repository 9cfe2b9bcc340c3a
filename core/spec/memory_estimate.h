// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_
#define MPSD_CORE_SPEC_MEMORY_ESTIMATE_H_

#include <cstdint>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {

// Device memory of a job in pure arithmetic, bytes. b is the size of a number
// in the frozen base and its activations (2 with bf16, else 4), T the tokens of
// a micro-batch (per_device_train_batch_size · max_length), L the layers, H
// hidden_size, I intermediate_size, Q and KV the widths of queries and keys.
//
//  base      parameters · b
//  adapter   trainable parameters · 16: value, gradient, two Adam moments, fp32
//  layer     per token what autograd keeps of a layer:
//            (4H [input and output of both norms] + 2Q + 2KV [q, k, v and the
//            attention's output] + 4I [gate, up, silu(gate), their product]) ·
//            b
//            + 4 · heads [log-sum-exp]
//  LoRA      per token and match 4r [x·Aᵀ], with dropout 4 · in_features more
//  activations  T · (2H·b + L · layer + LoRA), or with gradient_checkpointing
//            T · (2H·b + L · H·b + one layer with its LoRA)
//  logits    min(T, 1024) · vocab_size · 3 · 4: a chunk of the LM head in fp32,
//            its log-softmax and its gradient
//
// The attention is tiled: nothing grows with the square of the length.
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
