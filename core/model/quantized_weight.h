// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_QUANTIZED_WEIGHT_H_
#define MPSD_CORE_MODEL_QUANTIZED_WEIGHT_H_

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/device/traits.h"

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

}  // namespace mpsd::quant

#endif  // MPSD_CORE_MODEL_QUANTIZED_WEIGHT_H_
