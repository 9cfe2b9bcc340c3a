// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_HEAD_LAYOUT_H_
#define MPSD_CORE_MODEL_HEAD_LAYOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mpsd::attention {

// `heads` query heads, of which heads / kv_heads (a whole number) share the
// keys and values of one kv head.
struct HeadShape {
  int64_t heads, kv_heads, dim;
};

// The shape in which each query head has its own keys and values.
HeadShape EachWithKeys(const HeadShape& shape);

// Kernels take heads in different layouts. Each function converts a tensor by
// token, [rows, length, heads, dim], into one of them; its inverse converts the
// results back.
//
// [rows, heads, length, dim], a view; its own inverse. For ATen's attention.
at::Tensor SwapTokensAndHeads(const at::Tensor& x);

// [rows, kv_heads, length, heads / kv_heads, dim], contiguous: the query heads
// that share keys are rows of one matrix. For blocked attention.
at::Tensor ToBlockedLayout(const at::Tensor& x, int64_t kv_heads);
at::Tensor FromBlockedLayout(const at::Tensor& x);

// Keys or values repeated for every query head that shares them: [rows, length,
// heads, dim] from [rows, length, kv_heads, dim]. The inverse is the gradient:
// it sums over the query heads.
at::Tensor ForEachHead(const at::Tensor& x, const HeadShape& shape);
at::Tensor FromEachHead(const at::Tensor& x, const HeadShape& shape);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_HEAD_LAYOUT_H_
