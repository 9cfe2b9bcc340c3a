// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_EXPLICIT_STEP_ROPE_H_
#define MPSD_CORE_EXPLICIT_STEP_ROPE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/explicit_step/options.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

// Rotary position embedding by halves. x, y, dx and dy [rows, length, heads,
// head_dim]; lo and hi are the two halves of a head's last dimension.
// Forward:
//   y  = (lo · cos − hi · sin, hi · cos + lo · sin) = x R
// Backward, with dy = (dlo, dhi):
//   dx = (dlo · cos + dhi · sin, dhi · cos − dlo · sin) = dy Rᵀ
// R [head_dim, head_dim] is the rotation of one position.
struct RopeTable {
  at::Tensor cos;  // [rows, length, 1, head_dim]
  at::Tensor sin;  // [rows, length, 1, head_dim / 2]
  // On a GPU, if all rows have the same positions: R of each position, [length,
  // head_dim, head_dim]. Multiplying by R's zeros is cheaper than a second pass
  // over memory, and one batched product rotates all rows and heads. `back` is
  // Rᵀ, a view.
  at::Tensor rotation, back;
  // (−sin, sin) [rows, length, 1, head_dim], with which one call rotates both
  // halves. For small x, where calls dominate; else undefined.
  at::Tensor signed_sin;
  // True on devices whose kernels write views incorrectly: nothing is done in
  // place.
  bool by_copy = false;
};

// `table` has [rows or 1, 1, length, head_dim]; `heads` counts the heads of q
// and k together, which decides between few calls and few passes.
RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options);

// y of x, both [rows, length, heads, head_dim]. With table.rotation y is stored
// position by position, as [length, rows, heads, head_dim]; an x stored in the
// same way is read without a copy.
at::Tensor RopeForward(const at::Tensor& x, const RopeTable& table);
// dx of dy, in the layout of RopeForward's tensors.
at::Tensor RopeBackward(const at::Tensor& dy, const RopeTable& table);

}  // namespace mpsd::explicit_step

#endif  // MPSD_CORE_EXPLICIT_STEP_ROPE_H_
