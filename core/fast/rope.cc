// SPDX-License-Identifier: Apache-2.0
#include "core/fast/rope.h"

#include <ATen/ATen.h>

namespace mpsd::fast {
namespace {

constexpr int64_t kMaxRotation = int64_t{1} << 27;  // 256 MiB in bf16
// Numbers of a row below which launches cost more than memory.
constexpr int64_t kMinRotated = int64_t{1} << 21;

at::Tensor Rotations(const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t length = cos.size(0), dim = cos.size(1), half = dim / 2;
  const at::Tensor r = at::zeros({length, dim, dim}, cos.options());
  r.diagonal(0, 1, 2).copy_(cos);
  r.diagonal(half, 1, 2).copy_(sin);
  r.diagonal(-half, 1, 2).copy_(sin.neg());
  return r;
}

// y = x rotated by the table's angles, or with `sign` −1 back.
void Rotate(const at::Tensor& x, const RopeTable& table, double sign,
            at::Tensor& y) {
  if (table.rotation.defined()) {
    const at::Tensor r =
        sign > 0 ? table.rotation : table.rotation.transpose(1, 2);
    for (int64_t row = 0; row < x.size(0); ++row) {
      at::Tensor out = y.select(0, row);
      at::bmm_out(out, x.select(0, row), r);
    }
    return;
  }
  const int64_t half = x.size(-1) / 2;
  if (table.signed_sin.defined() && x.dim() == 4) {
    at::mul_out(y, x, table.cos);
    y.addcmul_(at::roll(x, half, -1), table.signed_sin, sign);
    return;
  }
  const bool split = x.dim() == 5;
  const at::Tensor cos = split ? table.cos.unsqueeze(2) : table.cos;
  const at::Tensor sin = split ? table.sin.unsqueeze(2) : table.sin;
  if (table.by_copy) {
    const at::Tensor swapped = at::cat(
        {x.narrow(-1, half, half).mul(-sign), x.narrow(-1, 0, half).mul(sign)},
        -1);
    y.copy_(x * cos + swapped * at::cat({sin, sin}, -1));
    return;
  }
  at::mul_out(y, x, cos);
  y.narrow(-1, 0, half).addcmul_(x.narrow(-1, half, half), sin, -sign);
  y.narrow(-1, half, half).addcmul_(x.narrow(-1, 0, half), sin, sign);
}

}  // namespace

RopeTable MakeRopeTable(const model::RotaryTable& table, int64_t heads,
                        const Options& options) {
  const int64_t dim = table.cos.size(-1);
  RopeTable result;
  result.cos = table.cos.transpose(1, 2);
  result.sin = table.sin.narrow(-1, 0, dim / 2).transpose(1, 2);
  result.by_copy = options.mps();
  const bool shared = table.cos.size(0) == 1;
  const int64_t length = table.cos.size(2);
  const bool few = length * heads * dim < kMinRotated;
  if (options.kernels == Kernels::kCuda && shared && !few &&
      length * dim * dim <= kMaxRotation) {
    result.rotation =
        Rotations(table.cos.flatten(0, 2), result.sin.flatten(0, 2));
  }
  if (few && !options.mps()) {
    result.signed_sin = at::cat({result.sin.neg(), result.sin}, -1);
  }
  result.sin = result.sin.contiguous();
  return result;
}

void RopeForward(const at::Tensor& x, const RopeTable& table, at::Tensor y) {
  Rotate(x, table, 1, y);
}

void RopeBackward(const at::Tensor& dy, const RopeTable& table, at::Tensor dx) {
  Rotate(dy, table, -1, dx);
}

}  // namespace mpsd::fast
