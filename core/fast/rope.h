// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_ROPE_H_
#define MPSD_CORE_FAST_ROPE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/fast/options.h"
#include "core/model/layers.h"

namespace mpsd::fast {

// Rotary position embedding by halves: of each head (lo, hi)
//   y = (lo · cos − hi · sin, hi · cos + lo · sin) = x R
//   dx = (dlo · cos + dhi · sin, dhi · cos − dlo · sin) = dy Rᵀ
struct RopeTable {
  at::Tensor cos;  // [rows, length, 1, head_dim]
  at::Tensor sin;  // [rows, length, 1, head_dim / 2]
  // Where all rows have the same positions, on a GPU: R by position, [length,
  // head_dim, head_dim]. Its zeros cost less than a second pass over memory,
  // and one product takes all rows and heads. `back` is its transpose.
  at::Tensor rotation, back;
  // For few numbers a row, whose time goes into calls: (−sin, sin) [rows,
  // length, 1, head_dim], so that both halves take one call.
  at::Tensor signed_sin;
  // Where kernels go wrong writing into views: nothing in place.
  bool by_copy = false;
};

// `table` [rows or 1, 1, length, head_dim]; `heads`, of q and k together, that
// it is for.
RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options);

// y of x, both [rows, length, heads, head_dim]. By a rotation y lies position
// by position in memory, [length, rows, heads, head_dim], and x does best to.
at::Tensor RopeForward(const at::Tensor& x, const RopeTable& table);
at::Tensor RopeBackward(const at::Tensor& dy, const RopeTable& table);

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_ROPE_H_
