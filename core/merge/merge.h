// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MERGE_MERGE_H_
#define MPSD_CORE_MERGE_MERGE_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mpsd::merge {

struct MergeOptions {
  std::filesystem::path model;    // a model folder
  std::filesystem::path adapter;  // a PEFT folder
  std::filesystem::path out;      // appears as a whole, or not at all
  // Of the result; absent: each weight keeps that of its file.
  std::optional<at::ScalarType> dtype;
  int64_t max_shard_bytes = 5'000'000'000;
  // Models of more fp32 bytes are compared by their first layers.
  int64_t max_compared_bytes = int64_t{4} << 30;
};

struct MergeReport {
  int64_t merged_weights = 0;    // W + scaling · B A
  int64_t replaced_weights = 0;  // of modules_to_save
  int64_t bytes = 0;             // of all weights
  int64_t shards = 0;
  int64_t compared_layers = 0;  // of the network's
  double logit_error = 0;       // relative; see CompareLogits
};

// The PEFT adapter put into the weights it was trained on, as PEFT's
// merge_and_unload and Transformers' save_pretrained leave them (peft 0.21,
// tuners/lora/layer.py): W + scaling · B A with the product in fp32, rounded to
// W's dtype; modules_to_save in the place of their modules; tokenizer and
// config beside. One weight is in memory at a time.
//
// What is written is checked twice: each merged weight on random inputs against
// base and adapter, within what rounding explains; and the logits of the whole,
// see CompareLogits. `progress` (may be null) gets what is being done and the
// share of it.
//
// InvalidArgument and Unimplemented for an adapter that does not go with the
// model, or a quantised model; DataLoss where a check fails: nothing is left
// behind then.
absl::StatusOr<MergeReport> Merge(
    const MergeOptions& options,
    const std::function<void(const std::string&, double)>& progress = nullptr);

}  // namespace mpsd::merge

#endif  // MPSD_CORE_MERGE_MERGE_H_
