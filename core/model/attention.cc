// SPDX-License-Identifier: Apache-2.0
#include "core/model/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/check.h"
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

const char* CausalName(AttentionKernel kernel, double softcap) {
  return kernel == AttentionKernel::kTiled || softcap > 0
             ? "tiled"
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
  if (kernel == AttentionKernel::kTiled || mask.softcap > 0) {
    return TiledAttention(q, k, v, mask);
  }
  const int64_t length = q.size(2);
  const bool plain =
      !mask.segments.defined() && (mask.window == 0 || mask.window >= length);
  // A mask only if is_causal is not enough: on CUDA a mask rules out flash
  // attention.
  std::optional<at::Tensor> seen;
  if (!plain) seen = FullMask(mask, length, q.device());
  return at::scaled_dot_product_attention(
      q, RepeatHeads(k, q.size(1)), RepeatHeads(v, q.size(1)), seen,
      /*dropout_p=*/0.0, /*is_causal=*/plain,
      mask.scale > 0 ? std::optional<double>(mask.scale) : std::nullopt);
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

// --- tiled attention ---------------------------------------------------------
// The tiling of FlashAttention-2 (Dao 2023, algorithms 1 and 2) in ATen calls.
// Query heads of one kv head are stacked into the rows of one GEMM:
//   q  [rows·kv_heads, group·length, head_dim], query i of group member g at
//      row g·length + i
//   k  [rows·kv_heads, length, head_dim]
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Geometry {
  int64_t rows, heads, kv_heads, length, dim, tile, window;
  bool causal;
  double scale, softcap;
  int64_t group() const { return heads / kv_heads; }
  int64_t tiles() const { return (length + tile - 1) / tile; }
  int64_t begin(int64_t t) const { return t * tile; }
  int64_t size(int64_t t) const { return std::min(tile, length - t * tile); }
  // The key tiles that queries of tile `t` may see.
  int64_t first_key_tile(int64_t t) const {
    return window == 0 ? 0 : std::max<int64_t>(0, begin(t) - window + 1) / tile;
  }
  int64_t last_key_tile(int64_t t) const { return causal ? t : tiles() - 1; }
};

// Either may be undefined.
struct Masks {
  at::Tensor segments;  // [rows, length]
  at::Tensor keys;      // fp32 [rows·kv_heads, 1, 1, length], added to scores
};

Masks MasksOf(const at::Tensor& segments, const at::Tensor& keys,
              const Geometry& g) {
  if (!keys.defined()) return {segments, keys};
  return {segments, keys.to(at::kFloat)
                        .expand({g.rows, g.kv_heads, 1, g.length})
                        .reshape({-1, 1, 1, g.length})};
}

// x [rows, heads, length, dim] → [rows·kv_heads, group, length, dim], fp32.
at::Tensor Group(const at::Tensor& x, const Geometry& g) {
  return x.to(at::kFloat)
      .reshape({g.rows * g.kv_heads, x.size(1) / g.kv_heads, g.length, g.dim})
      .contiguous();
}

// The queries of tile `t`, as the rows of one matrix per kv head.
at::Tensor QueryTile(const at::Tensor& x, const Geometry& g, int64_t t) {
  return x.narrow(2, g.begin(t), g.size(t))
      .reshape({g.rows * g.kv_heads, g.group() * g.size(t), x.size(3)});
}

at::Tensor KeyTile(const at::Tensor& x, const Geometry& g, int64_t t) {
  return x.narrow(2, g.begin(t), g.size(t))
      .reshape({g.rows * g.kv_heads, g.size(t), g.dim});
}

// True if a query of tile `tq` does not see a key of tile `tk`, shaped for the
// scores [rows·kv_heads, group, size(tq), size(tk)]; undefined if every query
// sees every key.
at::Tensor Hidden(const Geometry& g, const at::Tensor& segments, int64_t tq,
                  int64_t tk, at::Device device) {
  const bool causal_edge = g.causal && tk == tq;
  const bool window_edge =
      g.window > 0 && g.begin(tq) + g.size(tq) - 1 - g.begin(tk) >= g.window;
  at::Tensor hidden;
  if (causal_edge || window_edge) {
    const at::TensorOptions options = at::device(device).dtype(at::kLong);
    const at::Tensor distance =
        at::arange(g.begin(tq), g.begin(tq) + g.size(tq), options)
            .unsqueeze(1) -
        at::arange(g.begin(tk), g.begin(tk) + g.size(tk), options).unsqueeze(0);
    hidden = distance < 0;
    if (window_edge) hidden = hidden.logical_or(distance >= g.window);
    hidden = hidden.reshape({1, 1, g.size(tq), g.size(tk)});
  }
  if (segments.defined()) {
    const at::Tensor other =
        (segments.narrow(1, g.begin(tq), g.size(tq)).unsqueeze(2) !=
         segments.narrow(1, g.begin(tk), g.size(tk)).unsqueeze(1))
            .unsqueeze(1)
            .expand({g.rows, g.kv_heads, g.size(tq), g.size(tk)})
            .reshape({g.rows * g.kv_heads, 1, g.size(tq), g.size(tk)});
    hidden = hidden.defined() ? hidden.logical_or(other) : other;
  }
  return hidden;
}

// The scaled scores of one pair of tiles, −inf where hidden: [rows·kv_heads,
// group·size(tq), size(tk)]. Of capped scores c · t, t if `capped` is given.
at::Tensor Scores(const at::Tensor& q, const at::Tensor& k, const Geometry& g,
                  const Masks& masks, int64_t tq, int64_t tk,
                  at::Tensor* capped = nullptr) {
  at::Tensor scores = at::bmm(q, k.transpose(1, 2)).mul_(g.scale);
  if (g.softcap > 0) {
    const at::Tensor t = scores.mul_(1 / g.softcap).tanh_();
    if (capped != nullptr) *capped = t;
    scores = t * g.softcap;
  }
  if (masks.keys.defined()) {
    scores.view({-1, g.group(), g.size(tq), g.size(tk)})
        .add_(masks.keys.narrow(3, g.begin(tk), g.size(tk)));
  }
  const at::Tensor hidden = Hidden(g, masks.segments, tq, tk, q.device());
  if (hidden.defined()) {
    scores.view({-1, g.group(), g.size(tq), g.size(tk)})
        .masked_fill_(hidden, -std::numeric_limits<float>::infinity());
  }
  return scores;
}

struct ForwardResult {
  at::Tensor out;  // [rows·kv_heads, group, length, dim] fp32
  at::Tensor lse;  // [rows·kv_heads, group, length] fp32
};

// Algorithm 1: each query tile walks the key tiles it sees. The first key tile
// must leave every query a key, or the query's maximum is not finite. Under
// causality the diagonal tile does, since a query always sees itself; in
// right-padded rows the leftmost tile does. The walk begins there.
ForwardResult Forward(const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const Masks& masks,
                      const Geometry& g) {
  ForwardResult result{
      at::empty_like(q),
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options())};
  for (int64_t tq = 0; tq < g.tiles(); ++tq) {
    const at::Tensor query = QueryTile(q, g, tq);
    at::Tensor out, sum, top;
    const int64_t first = g.first_key_tile(tq), last = g.last_key_tile(tq);
    base::CheckAtMost(first, last, "the key tiles that a query sees");
    for (int64_t i = 0; i <= last - first; ++i) {
      const int64_t tk = g.causal ? last - i : first + i;
      const at::Tensor scores =
          Scores(query, KeyTile(k, g, tk), g, masks, tq, tk);
      const at::Tensor tile_top = scores.amax(-1, /*keepdim=*/true);
      const at::Tensor new_top =
          top.defined() ? at::maximum(top, tile_top) : tile_top;
      // The sums so far are relative to the former maximum: exp(top − new_top)
      // rescales them. Every exponent stays ≤ 0, so nothing overflows.
      const at::Tensor p = at::exp(scores - new_top);
      const at::Tensor tile_sum = p.sum(-1, /*keepdim=*/true);
      const at::Tensor tile_out = at::bmm(p, KeyTile(v, g, tk));
      if (top.defined()) {
        const at::Tensor shrink = at::exp(top - new_top);
        out = out * shrink + tile_out;
        sum = sum * shrink + tile_sum;
      } else {
        out = tile_out;
        sum = tile_sum;
      }
      top = new_top;
    }
    const std::vector<int64_t> shape = {-1, g.group(), g.size(tq), g.dim};
    result.out.narrow(2, g.begin(tq), g.size(tq))
        .copy_((out / sum).reshape(shape));
    result.lse.narrow(2, g.begin(tq), g.size(tq))
        .copy_((top + sum.log()).reshape({-1, g.group(), g.size(tq)}));
  }
  return result;
}

struct Gradients {
  at::Tensor dq, dk, dv;  // in the layout of q, k and v
};

// Algorithm 2: p = exp(scores − lse), dv += pᵀ do,
// ds = p ∘ (do vᵀ − rowsum(do ∘ out)), dq += ds k, dk += dsᵀ q.
Gradients Backward(const at::Tensor& q, const at::Tensor& k,
                   const at::Tensor& v, const ForwardResult& forwarded,
                   const at::Tensor& dout, const Masks& masks,
                   const Geometry& g) {
  // rowsum(do ∘ out) needs no tile of p, so it is computed once for all tiles.
  const at::Tensor delta = (dout * forwarded.out).sum(-1, /*keepdim=*/true);
  const at::Tensor lse = forwarded.lse.unsqueeze(-1);
  Gradients grad;
  grad.dq = at::empty_like(q);
  // One tensor per key tile: MPS adds correctly only into contiguous tensors.
  std::vector<at::Tensor> dk, dv;
  for (int64_t tk = 0; tk < g.tiles(); ++tk) {
    dk.push_back(at::zeros({k.size(0), g.size(tk), g.dim}, k.options()));
    dv.push_back(at::zeros_like(dk.back()));
  }
  for (int64_t tq = 0; tq < g.tiles(); ++tq) {
    const at::Tensor query = QueryTile(q, g, tq);
    const at::Tensor dout_tile = QueryTile(dout, g, tq);
    const at::Tensor delta_tile = QueryTile(delta, g, tq);
    const at::Tensor lse_tile = QueryTile(lse, g, tq);
    at::Tensor dq = at::zeros_like(query);
    for (int64_t tk = g.first_key_tile(tq); tk <= g.last_key_tile(tq); ++tk) {
      const at::Tensor key = KeyTile(k, g, tk);
      at::Tensor capped;
      const at::Tensor p =
          at::exp(Scores(query, key, g, masks, tq, tk, &capped) - lse_tile);
      // Transposed left operands are made contiguous: fp32 GEMMs with
      // transposed views on the left are wrong on MPS (pytorch#193487).
      const at::Tensor pt = p.transpose(1, 2).contiguous();
      dv[tk].add_(at::bmm(pt, dout_tile));
      const at::Tensor dp =
          at::bmm(dout_tile, KeyTile(v, g, tk).transpose(1, 2));
      const at::Tensor ds = (p * (dp - delta_tile)).mul_(g.scale);
      if (capped.defined()) ds.mul_(1 - capped.square());
      dq.add_(at::bmm(ds, key));
      dk[tk].add_(at::bmm(ds.transpose(1, 2).contiguous(), query));
    }
    grad.dq.narrow(2, g.begin(tq), g.size(tq))
        .copy_(dq.reshape({-1, g.group(), g.size(tq), g.dim}));
  }
  grad.dk = at::cat(dk, 1);
  grad.dv = at::cat(dv, 1);
  return grad;
}

class TiledAttentionFunction
    : public torch::autograd::Function<TiledAttentionFunction> {
  // Indices of the saved tensors.
  enum Saved { kQ, kK, kV, kSegments, kKeys, kOut, kLse };

 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& maybe_segments,
                            const std::optional<at::Tensor>& maybe_keys,
                            bool causal, int64_t window, double scale,
                            double softcap, int64_t tile) {
    const Geometry g = GeometryOf(q, k, tile, window, causal, scale, softcap);
    const Masks masks = MasksOf(maybe_segments.value_or(at::Tensor()),
                                maybe_keys.value_or(at::Tensor()), g);
    const ForwardResult result =
        Forward(Group(q, g), Group(k, g), Group(v, g), masks, g);
    ctx->save_for_backward(
        {q, k, v, masks.segments, masks.keys, result.out, result.lse});
    ctx->saved_data["causal"] = causal;
    ctx->saved_data["window"] = window;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["softcap"] = softcap;
    ctx->saved_data["tile"] = tile;
    return result.out.reshape(q.sizes()).to(q.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[kQ], &k = saved[kK], &v = saved[kV];
    const ForwardResult forwarded{.out = saved[kOut], .lse = saved[kLse]};
    const Masks masks{.segments = saved[kSegments], .keys = saved[kKeys]};
    const Geometry g = GeometryOf(q, k, ctx->saved_data["tile"].toInt(),
                                  ctx->saved_data["window"].toInt(),
                                  ctx->saved_data["causal"].toBool(),
                                  ctx->saved_data["scale"].toDouble(),
                                  ctx->saved_data["softcap"].toDouble());
    const Gradients grad = Backward(Group(q, g), Group(k, g), Group(v, g),
                                    forwarded, Group(grads[0], g), masks, g);
    // One per argument of forward; the seven after q, k and v have none.
    variable_list result(10);
    result[0] = grad.dq.reshape(q.sizes()).to(q.scalar_type());
    result[1] = grad.dk.reshape(k.sizes()).to(k.scalar_type());
    result[2] = grad.dv.reshape(v.sizes()).to(v.scalar_type());
    return result;
  }

 private:
  static Geometry GeometryOf(const at::Tensor& q, const at::Tensor& k,
                             int64_t tile, int64_t window, bool causal,
                             double scale, double softcap) {
    base::CheckLess(0, tile, "queries of a tile");
    base::CheckEqual(q.size(1) % k.size(1), 0, "heads beyond whole groups");
    return {.rows = q.size(0),
            .heads = q.size(1),
            .kv_heads = k.size(1),
            .length = q.size(2),
            .dim = q.size(3),
            .tile = tile,
            .window = window,
            .causal = causal,
            .scale = scale > 0 ? scale : 1.0 / std::sqrt(q.size(3)),
            .softcap = softcap};
  }
};

std::optional<at::Tensor> IfDefined(const at::Tensor& tensor) {
  if (tensor.defined()) return tensor;
  return std::nullopt;
}

}  // namespace

at::Tensor TiledAttention(const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionMask& mask,
                          int64_t tile) {
  return TiledAttentionFunction::apply(
      q, k, v, IfDefined(mask.segments), IfDefined(mask.keys), mask.causal,
      mask.window, mask.scale, mask.softcap, tile);
}

}  // namespace mpsd::attention
