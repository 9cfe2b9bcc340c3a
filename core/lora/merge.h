// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_LORA_MERGE_H_
#define MPSD_CORE_LORA_MERGE_H_

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
  std::filesystem::path out;      // appears complete or not at all
  // The result's dtype; absent: each weight keeps its file's dtype.
  std::optional<at::ScalarType> dtype;
  int64_t max_shard_bytes = 5'000'000'000;
  // If the model has more fp32 bytes, only the first layers are compared.
  int64_t max_compared_bytes = int64_t{4} << 30;
};

struct MergeReport {
  int64_t merged_weights = 0;    // W + scaling · B A
  int64_t replaced_weights = 0;  // from modules_to_save
  int64_t bytes = 0;             // size of all weights
  int64_t shards = 0;
  int64_t compared_layers = 0;  // number of layers that were compared
  double logit_error = 0;       // relative; see CompareLogits
};

// Merges a PEFT adapter into the weights it was trained on, with the result of
// PEFT's merge_and_unload and Transformers' save_pretrained (peft 0.21,
// tuners/lora/layer.py): W + scaling · B A with the product in fp32, rounded to
// W's dtype; modules_to_save replace their modules; tokenizer and config are
// copied. One weight is in memory at a time.
//
// The written result is checked in two ways: each merged weight on random
// inputs against base and adapter, within rounding; and the logits of the whole
// model (CompareLogits). `progress` (may be null) gets the current activity and
// its share done.
//
// InvalidArgument and Unimplemented for an adapter that does not fit the model,
// or a quantised model. DataLoss if a check fails. After an error no files are
// left.
absl::StatusOr<MergeReport> Merge(
    const MergeOptions& options,
    const std::function<void(const std::string&, double)>& progress = nullptr);

}  // namespace mpsd::merge

#endif  // MPSD_CORE_LORA_MERGE_H_
