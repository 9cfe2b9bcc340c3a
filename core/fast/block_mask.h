// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_BLOCK_MASK_H_
#define MPSD_CORE_FAST_BLOCK_MASK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <list>

namespace mpsd::fast {

// What hides keys from queries by how far they lie apart: of the last `count`
// of `keys` tokens as queries and all of them as keys [count, keys], 0 where
// the query sees the key, −inf at keys after it and, with a window > 0, at
// those that lie `window` or more before it. Any block of at most so many
// queries that ends with its last query's own key is a corner of it.
at::Tensor BandMask(int64_t count, int64_t keys, int64_t window,
                    const at::TensorOptions& options);

// That corner, a view.
at::Tensor CornerOf(const at::Tensor& band, int64_t count, int64_t keys);

// Bands that have been asked for, kept from micro-batch to micro-batch and from
// step to step: the latest, and others while all are kKept bytes at most.
// All of one dtype and device.
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
  std::list<Band> bands_;  // the latest first
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_BLOCK_MASK_H_
