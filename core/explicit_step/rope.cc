// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/rope.h"

#include <ATen/ATen.h>

namespace mpsd::explicit_step {
namespace {

constexpr int64_t kMaxRotation = int64_t{1} << 27;  // 256 MiB in bf16
// Below this many numbers per row of q and k, calls cost more than passes over
// memory.
constexpr int64_t kMinRotated = int64_t{1} << 21;

// R = diag(cos) + P diag(sin) of every position, [length, head_dim, head_dim];
// P swaps the halves: x P = (−hi, lo). `cos` and `sin` [length, 1, head_dim].
at::Tensor Rotations(const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t dim = cos.size(-1), half = dim / 2;
  const at::Tensor one = at::eye(dim, cos.options());
  const at::Tensor swap =
      at::cat({one.narrow(0, half, half), one.narrow(0, 0, half).neg()});
  return one * cos + swap * sin;
}

at::Tensor ByRotation(const at::Tensor& x, const at::Tensor& rotation) {
  // The batch of the product is the position, so that one R serves all rows and
  // heads. The transpose is a view if x is stored position by position.
  if (x.size(0) == 1) return at::bmm(x.select(0, 0), rotation).unsqueeze(0);
  const at::Tensor y = at::bmm(
      x.transpose(0, 1).flatten(/*start_dim=*/1, /*end_dim=*/2), rotation);
  return y.view({x.size(1), x.size(0), x.size(2), x.size(3)}).transpose(0, 1);
}

// x R with `sign` 1, x Rᵀ with `sign` −1: the transpose rotates by the negative
// angle.
at::Tensor Rotate(const at::Tensor& x, const RopeTable& table, double sign) {
  if (table.rotation.defined()) {
    return ByRotation(x, sign > 0 ? table.rotation : table.back);
  }
  const int64_t half = x.size(-1) / 2;
  if (table.by_copy) {
    const at::Tensor swapped = at::cat(
        {x.narrow(-1, half, half).mul(-sign), x.narrow(-1, 0, half).mul(sign)},
        -1);
    return x * table.cos + swapped * at::cat({table.sin, table.sin}, -1);
  }
  at::Tensor y = x * table.cos;
  if (table.signed_sin.defined()) {
    const at::Tensor swapped = at::roll(x, half, -1).mul_(table.signed_sin);
    return sign > 0 ? y.add_(swapped) : y.sub_(swapped);
  }
  y.narrow(-1, 0, half).addcmul_(x.narrow(-1, half, half), table.sin, -sign);
  y.narrow(-1, half, half).addcmul_(x.narrow(-1, 0, half), table.sin, sign);
  return y;
}

}  // namespace

RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options) {
  const int64_t length = table.cos.size(2), dim = table.cos.size(-1);
  RopeTable result;
  if (options.traits.cheap_products && table.cos.size(0) == 1 &&
      length * dim * dim <= kMaxRotation) {
    result.rotation = Rotations(table.cos.view({length, 1, dim}),
                                table.sin.view({length, 1, dim}));
    result.back = result.rotation.transpose(1, 2);
    return result;
  }
  result.cos = table.cos.transpose(1, 2);
  result.sin = table.sin.narrow(-1, 0, dim / 2).transpose(1, 2);
  result.by_copy = !options.traits.strided_targets;
  if (length * heads * dim < kMinRotated && !result.by_copy) {
    result.signed_sin = at::cat({result.sin.neg(), result.sin}, -1);
  }
  result.sin = result.sin.contiguous();
  return result;
}

at::Tensor RopeForward(const at::Tensor& x, const RopeTable& table) {
  return Rotate(x, table, 1);
}

at::Tensor RopeBackward(const at::Tensor& dy, const RopeTable& table) {
  return Rotate(dy, table, -1);
}

}  // namespace mpsd::explicit_step
