// SPDX-License-Identifier: Apache-2.0
#include "core/host/traits.h"

namespace mpsd::backend {
namespace {

// The traits that all GPUs share.
Traits OfGpu() {
  Traits t;
  t.inner_products = false;
  t.slow_attention_backward = false;
  t.splits_products = false;
  t.rounds_to_summand = false;
  t.cached_pieces = false;
  t.one_node_layers = false;
  t.cheap_products = true;
  t.own_generator = true;
  t.draws_in_order = false;
  t.is_reference = false;
  return t;
}

Traits OfCuda() {
  Traits t = OfGpu();
  t.fused_attention = FusedAttention::kByToken;
  t.fused_norm = FusedNorm::kWithBackward;
  t.wide_products = true;
  t.lengths_by_eight = true;
  t.memory = MemoryPlace::kOwn;
  return t;
}

Traits OfMps() {
  Traits t = OfGpu();
  t.max_sum = 32'766;
  t.transposed_left = false;
  t.strided_targets = false;
  t.softmax_in_place = false;
  t.exact_softmax_backward = false;
  t.mixes_dtypes = false;
  t.lacks_operators = true;
  t.silent_out_of_memory = true;
  t.fused_attention = FusedAttention::kNone;
  t.fused_norm = FusedNorm::kForward;
  t.masks_for_products = true;
  t.compiles_each_shape = true;
  t.encodes_lazily = true;
  t.memory = MemoryPlace::kShared;
  return t;
}

}  // namespace

std::string_view NameOf(Choice choice) {
  for (const auto& [name, known] : kChoices) {
    if (known == choice) return name;
  }
  return "";
}

std::optional<Choice> ChoiceOf(std::string_view name) {
  for (const auto& [known, choice] : kChoices) {
    if (known == name) return choice;
  }
  return std::nullopt;
}

const Traits& TraitsOf(Choice choice) {
  static const Traits cpu{}, cuda = OfCuda(), mps = OfMps();
  switch (choice) {
    case Choice::kCpu:
      return cpu;
    case Choice::kCuda:
      return cuda;
    case Choice::kMps:
    case Choice::kAuto:
      break;
  }
  return mps;
}

}  // namespace mpsd::backend
