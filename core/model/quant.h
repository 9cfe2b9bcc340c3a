// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"
#include "core/device/device.h"

// Frozen weights in four and eight bits: made here or read from a file, and the
// linear layer that computes with them.
namespace mpsd::quant {

// The frozen, quantised weight [rows, columns] of a linear layer. Immutable;
// shared by all layers and threads that compute with it.
class QuantizedWeight {
 public:
  virtual ~QuantizedWeight() = default;
  QuantizedWeight(const QuantizedWeight&) = delete;
  QuantizedWeight& operator=(const QuantizedWeight&) = delete;

  int64_t rows() const { return rows_; }        // out_features
  int64_t columns() const { return columns_; }  // in_features

  // The weight as a new dense matrix [rows, columns] in `dtype`, on the device
  // of the codes. The object keeps no reference to it.
  virtual at::Tensor Dense(at::ScalarType dtype) const = 0;

  // Bytes that the object occupies on its device.
  virtual int64_t bytes() const = 0;
  virtual at::Device device() const = 0;

 protected:
  QuantizedWeight(int64_t rows, int64_t columns)
      : rows_(rows), columns_(columns) {}

  // How many rows of `values` values each Dense should decode at a time: as
  // many as fit into a cache, or all.
  int64_t RowsAtOnce(int64_t values) const {
    constexpr int64_t kCached = 1 << 19;
    if (!device::TraitsOf(device()).cached_pieces) {
      return std::numeric_limits<int64_t>::max();
    }
    return std::max<int64_t>(kCached / values, 1);
  }

 private:
  const int64_t rows_, columns_;
};

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

enum class Format { kNf4, kInt8 };

struct Options {
  Format format = Format::kNf4;
  bool double_quantization = false;  // also stores NF4's scales in eight bits
};

// `weight` [rows, columns], on the CPU, quantised on `device`.
std::shared_ptr<const QuantizedWeight> Quantize(const at::Tensor& weight,
                                                const Options& options,
                                                at::Device device);

// Quantised weights in a file, as Transformers saves a model that bitsandbytes
// quantised. In four bits "NAME" (uint8 codes) is accompanied by
//   NAME.absmax, NAME.quant_map, NAME.quant_state.bitsandbytes__nf4 (JSON) and,
//   with double quantisation, NAME.nested_absmax, NAME.nested_quant_map
// and in eight bits (int8 codes) by SCB in place of "weight".

// `name` ends in ".weight".
bool IsStored(const tensorfile::Weights& weights, const std::string& name);

// InvalidArgument if parts are missing or do not fit [rows, columns];
// Unimplemented for another type than nf4 ("fp4").
absl::StatusOr<std::shared_ptr<const QuantizedWeight>> LoadStored(
    const tensorfile::Weights& weights, const std::string& name, int64_t rows,
    int64_t columns, at::Device device);

// y = x Wᵀ + b in x's dtype, with a gradient for x only. Nothing dense is kept
// between forward and backward: the backward decodes W again.
//   x [.., columns]; bias [rows] in x's dtype, or undefined
at::Tensor LinearForward(const at::Tensor& x,
                         const std::shared_ptr<const QuantizedWeight>& weight,
                         const at::Tensor& bias);

}  // namespace mpsd::quant
