// SPDX-License-Identifier: Apache-2.0
#include "core/model/block_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "core/base/check.h"

namespace mpsd::attention {

at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options) {
  const at::TensorOptions integers = options.dtype(at::kInt);
  const at::Tensor distance =
      at::arange(keys - count, keys, integers).unsqueeze(1) -
      at::arange(keys, integers).unsqueeze(0);
  at::Tensor hidden = distance < 0;
  if (window > 0) hidden = hidden.logical_or(distance >= window);
  return at::zeros(hidden.sizes(), options)
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys) {
  const int64_t above = band.size(0) - count, before = band.size(1) - keys;
  base::CheckAtMost(0, above, "rows of a band above a block");
  base::CheckAtMost(0, before, "keys of a band before a block");
  const at::Tensor rows = above > 0 ? band.narrow(0, above, count) : band;
  return before > 0 ? rows.narrow(1, before, keys) : rows;
}

at::Tensor BandMasks::Get(int64_t count, int64_t keys, int64_t window,
                          const at::TensorOptions& options) {
  const auto known =
      std::find_if(bands_.begin(), bands_.end(), [&](const Band& b) {
        return b.count == count && b.keys == keys && b.window == window;
      });
  if (known != bands_.end()) {
    bands_.splice(bands_.begin(), bands_, known);
    return bands_.front().mask;
  }
  // Evicts before the new mask is made, so that the bound always holds.
  const auto coming =
      count * keys * static_cast<int64_t>(options.dtype().itemsize());
  while (!bands_.empty() && bytes() + coming > kKept) bands_.pop_back();
  bands_.push_front(
      {count, keys, window, BandMask(count, keys, window, options)});
  return bands_.front().mask;
}

int64_t BandMasks::bytes() const {
  int64_t sum = 0;
  for (const Band& b : bands_) sum += static_cast<int64_t>(b.mask.nbytes());
  return sum;
}

}  // namespace mpsd::attention
