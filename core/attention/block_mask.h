// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_ATTENTION_BLOCK_MASK_H_
#define MPSD_CORE_ATTENTION_BLOCK_MASK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mpsd::attention {

// The mask that hides keys by their distance from the query, [count, keys]. The
// queries are the last `count` of `keys` tokens. An entry is 0 where the query
// sees the key, and −inf at keys after the query and, with a window > 0, at
// keys that lie `window` or more tokens before the query. The mask of any
// smaller block that ends with its last query's own key is a corner of this
// one.
at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options);

// The lower right corner [count, keys] of a BandMask; a view.
at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys);

// Keeps the BandMask that was asked for last, from micro-batch to micro-batch
// and from step to step. All calls give the same dtype and device.
class KeptBand {
 public:
  at::Tensor Get(int64_t count, int64_t keys, int64_t window,
                 const at::TensorOptions& options);

 private:
  int64_t window_ = 0;
  at::Tensor mask_;  // [count, keys]; undefined: none yet
};

}  // namespace mpsd::attention

#endif  // MPSD_CORE_ATTENTION_BLOCK_MASK_H_
