// SPDX-License-Identifier: Apache-2.0
#include "core/model/head_layout.h"

#include <ATen/ATen.h>

#include "core/base/check.h"

namespace mpsd::attention {

HeadShape EachWithKeys(const HeadShape& shape) {
  return {.heads = shape.heads, .kv_heads = shape.heads, .dim = shape.dim};
}

at::Tensor SwapTokensAndHeads(const at::Tensor& x) { return x.transpose(1, 2); }

at::Tensor ToBlockedLayout(const at::Tensor& x, int64_t kv_heads) {
  base::CheckEqual(x.size(2) % kv_heads, 0, "heads beyond whole groups");
  const int64_t group = x.size(2) / kv_heads;
  // Each block is a batch of GEMMs: one matrix per row and kv head, one copy
  // here.
  return x.unflatten(2, {kv_heads, group})
      .permute({0, 2, 1, 3, 4})
      .contiguous();
}

at::Tensor FromBlockedLayout(const at::Tensor& x) {
  return x.permute({0, 2, 1, 3, 4}).flatten(/*start_dim=*/2, /*end_dim=*/3);
}

at::Tensor ForEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) return x;
  return x.unsqueeze(3).expand({-1, -1, -1, group, -1}).flatten(2, 3);
}

at::Tensor FromEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  return group == 1 ? x : x.unflatten(2, {shape.kv_heads, group}).sum(3);
}

}  // namespace mpsd::attention
