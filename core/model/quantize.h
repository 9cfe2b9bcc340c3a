// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_QUANTIZE_H_
#define MPSD_CORE_MODEL_QUANTIZE_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/model/quantized_weight.h"

namespace mpsd::quant {

enum class Format { kNf4, kInt8 };

struct Options {
  Format format = Format::kNf4;
  bool double_quantization = false;  // also stores NF4's scales in eight bits
};

// `weight` [rows, columns], on the CPU, quantised on `device`.
std::shared_ptr<const QuantizedWeight> Quantize(const at::Tensor& weight,
                                                const Options& options,
                                                at::Device device);

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_QUANTIZE_H_
