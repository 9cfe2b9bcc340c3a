// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host/traits.h"
#include "core/spec/model_config.h"
#include "core/spec/modules.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

// How a job computes the layers of its model. The memory estimate, the plan and
// the training all follow this description.
namespace mpsd::spec {

// The linears of a block by their input: q, k and v; o; gate and up, or up;
// down.
enum LinearGroup { kQkv, kOut, kUp, kDown, kLinearGroups };

struct JobLinear {
  double in = 0, out = 0;
  double rank = 0;         // of its adapter; 0: none
  bool trained = false;    // its weight
  bool value = false;      // v, which the explicit step separates from q, k
  bool quantized = false;  // its frozen weight
};

struct JobLayer {
  std::vector<JobLinear> groups[kLinearGroups];  // in the order of the network
  // Whether the gradient of the group's input is needed.
  bool wants_input[kLinearGroups] = {};
  bool any_backward = false;  // anything in it or below it is trained
  double parameters = 0;      // of all modules, adapters excluded

  bool HasAdapter(LinearGroup group) const;
};

struct JobLayers {
  std::vector<JobLayer> layers;
  std::vector<TargetMatch> matches;  // LoRA's; none if a target matches nothing
  std::vector<Module> saved;         // LoRA's modules_to_save
  bool valid_lora = true;            // both could be matched
  bool trained_head = false;
  double head_rank = 0;             // of its adapter; 0: none
  double head_parameters = 0;       // of the task's head
  double embedding_parameters = 0;  // of all tables
};

JobLayers LayersOf(const TrainSpec& spec, const ModelConfig& model);

// How a job's gradients are computed.
struct GradientChoice {
  // By the hand-written backward in core/explicit_step; else by autograd.
  bool explicit_step = false;
  // Why a job gets autograd although its kind supports the explicit step; empty
  // if its kind does not, or if the job asks for autograd.
  std::string reason;
  bool operator==(const GradientChoice&) const = default;
};

// The only place that decides: the memory estimate, the training and run.json
// all follow this result. `spec` is as the job gives it, or as completed by a
// run.
GradientChoice ChooseGradients(const TrainSpec& spec,
                               const ModelConfig& config);

// For attention by blocks of queries (core/explicit_step): how many queries of
// every row and head have their scores computed at a time. Small blocks skip
// more of the scores that causality masks, but each block costs a dozen calls.
// With `cached` (backend::Traits::cached_pieces) a block's scores fit into a
// cache, else they number at most 2^27.
int64_t QueriesPerBlock(int64_t rows, int64_t heads, int64_t length,
                        bool cached);

// For a language model's loss in core/explicit_step: of how many labels the
// logits exist at a time. With `cached` as above, about 2^25 logits; on a GPU
// 2^27 if the head's weight is trained, whose gradient is read and written once
// for each piece.
int64_t LabelsPerPiece(int64_t vocab_size, bool trained_head, bool cached);

// The most mask numbers kept for all blocks together: masks of packed rows'
// segments, and masks added by products (backend::Traits::masks_for_products).
inline constexpr int64_t kMostKeptMasks = int64_t{1} << 23;

// Whether a fused kernel computes the model's attention on a device with
// `traits`: none caps scores.
inline bool AttendsFused(const backend::Traits& traits,
                         const ModelConfig& model) {
  return traits.attends_fused() && model.attention_softcap == 0;
}

}  // namespace mpsd::spec
