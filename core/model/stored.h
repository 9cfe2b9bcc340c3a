// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_STORED_H_
#define MPSD_CORE_MODEL_STORED_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/model/quantized_weight.h"
#include "core/ckpt/weights.h"

// Quantised weights in a file, as Transformers saves a model that bitsandbytes
// quantised. In four bits "NAME" (uint8 codes) is accompanied by
//   NAME.absmax, NAME.quant_map, NAME.quant_state.bitsandbytes__nf4 (JSON) and,
//   with double quantisation, NAME.nested_absmax, NAME.nested_quant_map
// and in eight bits (int8 codes) by SCB in place of "weight".
namespace mpsd::quant {

// `name` ends in ".weight".
bool IsStored(const tensorfile::Weights& weights, const std::string& name);

// InvalidArgument if parts are missing or do not fit [rows, columns];
// Unimplemented for another type than nf4 ("fp4").
absl::StatusOr<std::shared_ptr<const QuantizedWeight>> LoadStored(
    const tensorfile::Weights& weights, const std::string& name, int64_t rows,
    int64_t columns, at::Device device);

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_STORED_H_
