// SPDX-License-Identifier: Apache-2.0
#include "core/model/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/model/products.h"

namespace mpsd::attention {
namespace {

// bool [rows or 1, 1, length, length], true where a query sees a key.
at::Tensor FullMask(const AttentionMask& mask, int64_t length,
                    at::Device device) {
  const at::Tensor index = at::arange(length, at::device(device));
  const at::Tensor distance = index.unsqueeze(1) - index.unsqueeze(0);
  at::Tensor seen = distance >= 0;
  if (mask.window > 0) seen = seen.logical_and(distance < mask.window);
  seen = seen.unsqueeze(0);
  if (mask.segments.defined()) {
    seen = seen.logical_and(mask.segments.unsqueeze(2) ==
                            mask.segments.unsqueeze(1));
  }
  return seen.unsqueeze(1);
}

// Repeats each kv head for every query head of its group.
at::Tensor RepeatHeads(const at::Tensor& x, int64_t heads) {
  const int64_t repeat = heads / x.size(1);
  if (repeat == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), repeat, x.size(2), x.size(3)})
      .reshape({x.size(0), heads, x.size(2), x.size(3)});
}

// Whether a tiled kernel computes the whole matrix of probabilities.
bool IsPlain(const at::Tensor& q, const at::Tensor& k, double dropout) {
  return dropout > 0 || q.size(2) != k.size(2);
}

at::Tensor PlainAttention(const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const at::Tensor& keys,
                          double dropout) {
  // Scaling q is a pass over [length, head_dim], not over [length, length].
  at::Tensor scores =
      products::ProductOfTransposed(q * (1.0 / std::sqrt(q.size(3))), k);
  if (keys.defined()) scores = scores + keys;
  at::Tensor p = at::softmax(scores, -1, at::kFloat);
  if (dropout > 0) p = at::dropout(p, dropout, /*train=*/true);
  return products::Product(p.to(v.scalar_type()), v);
}

}  // namespace

const char* CausalName(AttentionKernel kernel) {
  return kernel == AttentionKernel::kTiled ? "tiled"
                                           : "scaled_dot_product_attention";
}

const char* BidirectionalName(const at::Tensor& q, const at::Tensor& k,
                              double dropout, AttentionKernel kernel) {
  const bool plain =
      kernel == AttentionKernel::kTiled && IsPlain(q, k, dropout);
  return plain ? "plain" : CausalName(kernel);
}

at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const AttentionMask& mask,
                           AttentionKernel kernel) {
  if (kernel == AttentionKernel::kTiled) return TiledAttention(q, k, v, mask);
  const int64_t length = q.size(2);
  const bool plain =
      !mask.segments.defined() && (mask.window == 0 || mask.window >= length);
  // A mask only if is_causal is not enough: on CUDA a mask rules out flash
  // attention.
  std::optional<at::Tensor> seen;
  if (!plain) seen = FullMask(mask, length, q.device());
  return at::scaled_dot_product_attention(
      q, RepeatHeads(k, q.size(1)), RepeatHeads(v, q.size(1)), seen,
      /*dropout_p=*/0.0, /*is_causal=*/plain);
}

at::Tensor PaddingMask(const at::Tensor& lengths, int64_t length,
                       at::ScalarType dtype) {
  const at::Tensor padding =
      at::arange(length, lengths.options()) >= lengths.unsqueeze(1);
  return at::zeros(padding.sizes(), lengths.options().dtype(dtype))
      .masked_fill_(padding, -std::numeric_limits<double>::infinity())
      .unsqueeze(1)
      .unsqueeze(1);
}

at::Tensor BidirectionalAttention(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const at::Tensor& keys,
                                  double dropout, AttentionKernel kernel) {
  if (kernel == AttentionKernel::kTiled) {
    if (IsPlain(q, k, dropout)) {
      return PlainAttention(q, k, v, keys, dropout);
    }
    AttentionMask mask;
    mask.causal = false;
    mask.keys = keys;
    return TiledAttention(q, k, v, mask);
  }
  std::optional<at::Tensor> added;
  if (keys.defined()) added = keys;
  return at::scaled_dot_product_attention(q, k, v, added, dropout);
}

}  // namespace mpsd::attention
