// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_LORA_COMPARE_LOGITS_H_
#define MPSD_CORE_LORA_COMPARE_LOGITS_H_

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "core/lora/adapted_model.h"

namespace mpsd::merge {

struct Comparison {
  int64_t layers = 0;  // number of the network's layers that were run
  // ‖merged − reference‖ / ‖reference‖ over the logits.
  double error = 0;
};

// Runs the base model with the adapter, and the merged weights in `folder`, on
// a few random rows in fp32 on the CPU. If the model has more than `max_bytes`
// of fp32 weights, only the first layers run. DataLoss if the logits differ by
// more than rounding the weights to `dtype` explains.
absl::StatusOr<Comparison> CompareLogits(const AdaptedModel& adapted,
                                         const std::filesystem::path& folder,
                                         at::ScalarType dtype,
                                         int64_t max_bytes);

// The largest relative error that rounding to `dtype` makes.
double RoundingOf(at::ScalarType dtype);

}  // namespace mpsd::merge

#endif  // MPSD_CORE_LORA_COMPARE_LOGITS_H_
