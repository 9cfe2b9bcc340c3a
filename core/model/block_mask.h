// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_BLOCK_MASK_H_
#define MPSD_CORE_MODEL_BLOCK_MASK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>

namespace mpsd::attention {

// The mask that hides keys by their distance from the query, [count, keys]. The
// queries are the last `count` of `keys` tokens. An entry is 0 if the query
// sees the key, and −inf for keys after the query and, with a window > 0, for
// keys `window` or more tokens before the query. The mask of any smaller block
// that ends with its last query's own key is a corner of this one.
at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options);

// The lower right corner [count, keys] of a BandMask; a view.
at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys);

// Keeps requested BandMasks from micro-batch to micro-batch and from step to
// step: always the latest, and earlier ones while all together take kKept bytes
// or less. All calls give the same dtype and device.
class BandMasks {
 public:
  static constexpr int64_t kKept = int64_t{64} << 20;

  at::Tensor Get(int64_t count, int64_t keys, int64_t window,
                 const at::TensorOptions& options);

  int64_t bytes() const;

 private:
  struct Band {
    int64_t count, keys, window;
    at::Tensor mask;
  };
  std::list<Band> bands_;  // most recently used first
};

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_BLOCK_MASK_H_
