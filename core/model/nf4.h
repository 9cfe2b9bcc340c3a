// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_NF4_H_
#define MPSD_CORE_MODEL_NF4_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/model/quantized_weight.h"

namespace mpsd::quant {

// A 4-bit NormalFloat (Dettmers et al. 2023, QLoRA, appendix E): the weight's
// values in row-major order, in blocks that share a scale:
//   value = kNf4[code] · absmax[block]
// Two codes share a byte, the first in the upper half, as bitsandbytes packs
// them. If absmax is itself quantised ("double quantisation"):
//   absmax[b] = map[code[b]] · scale[b / 256] + offset
struct Nf4Parts {
  int64_t rows = 0, columns = 0;
  int64_t block = 64;
  // The weight's dtype before quantisation; dense values are rounded to it.
  at::ScalarType dtype = at::kFloat;
  at::Tensor codes;   // uint8 [blocks · block / 2]
  at::Tensor absmax;  // fp32 [blocks]; uint8 if nested
  // Defined only for a nested absmax:
  at::Tensor nested_map;     // fp32 [256]
  at::Tensor nested_absmax;  // fp32 [ceil(blocks / nested_block)]
  int64_t nested_block = 256;
  float nested_offset = 0;
};

// Quantises `weight` [rows, columns] (fp32, bf16 or fp16, on the CPU, so that
// all devices get the same codes), as bitsandbytes' quantize_4bit with
// quant_type "nf4" does.
Nf4Parts QuantizeNf4(const at::Tensor& weight, bool double_quantization,
                     int64_t block = 64);

// The weight on `device`. Decoding takes a table look-up of pairs, a
// multiplication and a cast, for which every backend has kernels.
std::shared_ptr<const QuantizedWeight> MakeNf4(const Nf4Parts& parts,
                                               at::Device device);

// The sixteen values, fp32 [16] on the CPU.
at::Tensor Nf4Values();

// bitsandbytes' signed dynamic map (functional.py, create_dynamic_map), which
// quantises absmax; fp32 [256] on the CPU.
at::Tensor DynamicMap();

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_NF4_H_
