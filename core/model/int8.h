// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_INT8_H_
#define MPSD_CORE_MODEL_INT8_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/model/quantized_weight.h"

namespace mpsd::quant {

// Eight bits per value and a scale per row:
//   value = code · absmax[row] / 127
// The codes equal those of bitsandbytes' Linear8bitLt; activations, which
// LLM.int8() quantises too, stay in the job's compute dtype.
struct Int8Parts {
  at::Tensor codes;   // int8 [rows, columns]
  at::Tensor absmax;  // fp32 [rows]
};

// Quantises `weight` [rows, columns], on the CPU, from its values rounded to
// fp16, as bitsandbytes' Int8Params does.
Int8Parts QuantizeInt8(const at::Tensor& weight);

std::shared_ptr<const QuantizedWeight> MakeInt8(const Int8Parts& parts,
                                                at::Device device);

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_INT8_H_
