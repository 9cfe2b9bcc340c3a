// SPDX-License-Identifier: Apache-2.0
// The tiling of FlashAttention-2 (Dao 2023, algorithms 1 and 2) in ATen calls.
// Query heads of one kv head are stacked into the rows of one GEMM:
//   q  [rows·kv_heads, group·length, head_dim], query i of group member g at
//      row g·length + i
//   k  [rows·kv_heads, length, head_dim]
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/model/attention.h"

namespace mpsd::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Geometry {
  int64_t rows, heads, kv_heads, length, dim, tile, window;
  int64_t group() const { return heads / kv_heads; }
  int64_t tiles() const { return (length + tile - 1) / tile; }
  int64_t begin(int64_t t) const { return t * tile; }
  int64_t size(int64_t t) const { return std::min(tile, length - t * tile); }
  // The first key tile that a query of tile `t` may see.
  int64_t first_key_tile(int64_t t) const {
    return window == 0 ? 0 : std::max<int64_t>(0, begin(t) - window + 1) / tile;
  }
};

// x [rows, heads, length, dim] → [rows·kv_heads, group, length, dim], fp32.
at::Tensor Group(const at::Tensor& x, const Geometry& g) {
  return x.to(at::kFloat)
      .reshape({g.rows * g.kv_heads, x.size(1) / g.kv_heads, g.length, g.dim})
      .contiguous();
}

// Queries of tile `t` as the rows of one matrix per kv head.
at::Tensor QueryTile(const at::Tensor& x, const Geometry& g, int64_t t) {
  return x.narrow(2, g.begin(t), g.size(t))
      .reshape({g.rows * g.kv_heads, g.group() * g.size(t), x.size(3)});
}

at::Tensor KeyTile(const at::Tensor& x, const Geometry& g, int64_t t) {
  return x.narrow(2, g.begin(t), g.size(t))
      .reshape({g.rows * g.kv_heads, g.size(t), g.dim});
}

// True where a query of tile `tq` does not see a key of tile `tk`, shaped for
// the scores [rows·kv_heads, group, size(tq), size(tk)]; undefined when all is
// seen.
at::Tensor Hidden(const Geometry& g, const at::Tensor& segments, int64_t tq,
                  int64_t tk, at::Device device) {
  const bool causal_edge = tk == tq;
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

// Scaled scores of one pair of tiles, hidden ones -inf:
// [rows·kv_heads, group·size(tq), size(tk)].
at::Tensor Scores(const at::Tensor& q, const at::Tensor& k, const Geometry& g,
                  const at::Tensor& segments, int64_t tq, int64_t tk) {
  at::Tensor scores =
      at::bmm(q, k.transpose(1, 2)).mul_(1.0 / std::sqrt(g.dim));
  const at::Tensor hidden = Hidden(g, segments, tq, tk, q.device());
  if (hidden.defined()) {
    scores.view({-1, g.group(), g.size(tq), g.size(tk)})
        .masked_fill_(hidden, -std::numeric_limits<float>::infinity());
  }
  return scores;
}

struct Forwarded {
  at::Tensor out;  // [rows·kv_heads, group, length, dim] fp32
  at::Tensor lse;  // [rows·kv_heads, group, length] fp32
};

// Algorithm 1: each query tile once over the keys it sees. A query always sees
// itself, so a tile's maximum is finite once its diagonal is done; tiles are
// walked from the diagonal back for that reason.
Forwarded Forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& segments, const Geometry& g) {
  Forwarded result{at::empty_like(q),
                   at::empty({q.size(0), q.size(1), q.size(2)}, q.options())};
  for (int64_t tq = 0; tq < g.tiles(); ++tq) {
    const at::Tensor query = QueryTile(q, g, tq);
    at::Tensor out, sum, top;
    for (int64_t tk = tq; tk >= g.first_key_tile(tq); --tk) {
      const at::Tensor scores =
          Scores(query, KeyTile(k, g, tk), g, segments, tq, tk);
      const at::Tensor tile_top = scores.amax(-1, /*keepdim=*/true);
      const at::Tensor new_top =
          top.defined() ? at::maximum(top, tile_top) : tile_top;
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
  at::Tensor dq, dk, dv;  // shaped as the grouped q, k, v
};

// Algorithm 2: p = exp(scores − lse), dv += pᵀ do,
// ds = p ∘ (do vᵀ − rowsum(do ∘ out)), dq += ds k, dk += dsᵀ q.
Gradients Backward(const at::Tensor& q, const at::Tensor& k,
                   const at::Tensor& v, const Forwarded& forwarded,
                   const at::Tensor& dout, const at::Tensor& segments,
                   const Geometry& g) {
  const double scale = 1.0 / std::sqrt(g.dim);
  const at::Tensor delta = (dout * forwarded.out).sum(-1, /*keepdim=*/true);
  const at::Tensor lse = forwarded.lse.unsqueeze(-1);
  Gradients grad{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  for (int64_t tq = 0; tq < g.tiles(); ++tq) {
    const at::Tensor query = QueryTile(q, g, tq);
    const at::Tensor dout_tile = QueryTile(dout, g, tq);
    const at::Tensor delta_tile = QueryTile(delta, g, tq);
    const at::Tensor lse_tile = QueryTile(lse, g, tq);
    at::Tensor dq = at::zeros_like(query);
    for (int64_t tk = g.first_key_tile(tq); tk <= tq; ++tk) {
      const at::Tensor key = KeyTile(k, g, tk);
      const at::Tensor p =
          at::exp(Scores(query, key, g, segments, tq, tk) - lse_tile);
      // Transposed left operands are made contiguous: fp32 GEMMs with
      // transposed views on the left are wrong on MPS (pytorch#193487).
      const at::Tensor pt = p.transpose(1, 2).contiguous();
      grad.dv.narrow(2, g.begin(tk), g.size(tk))
          .add_(at::bmm(pt, dout_tile).unsqueeze(1));
      const at::Tensor dp =
          at::bmm(dout_tile, KeyTile(v, g, tk).transpose(1, 2));
      const at::Tensor ds = (p * (dp - delta_tile)).mul_(scale);
      dq.add_(at::bmm(ds, key));
      grad.dk.narrow(2, g.begin(tk), g.size(tk))
          .add_(at::bmm(ds.transpose(1, 2).contiguous(), query).unsqueeze(1));
    }
    grad.dq.narrow(2, g.begin(tq), g.size(tq))
        .copy_(dq.reshape({-1, g.group(), g.size(tq), g.dim}));
  }
  return grad;
}

class TiledAttentionFunction
    : public torch::autograd::Function<TiledAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& maybe_segments,
                            int64_t window, int64_t tile) {
    const at::Tensor segments = maybe_segments.value_or(at::Tensor());
    const Geometry g{q.size(0), q.size(1), k.size(1), q.size(2),
                     q.size(3), tile,      window};
    const Forwarded result =
        Forward(Group(q, g), Group(k, g), Group(v, g), segments, g);
    ctx->save_for_backward({q, k, v, segments, result.out, result.lse});
    ctx->saved_data["window"] = window;
    ctx->saved_data["tile"] = tile;
    return result.out.reshape(q.sizes()).to(q.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const Geometry g{q.size(0),
                     q.size(1),
                     k.size(1),
                     q.size(2),
                     q.size(3),
                     ctx->saved_data["tile"].toInt(),
                     ctx->saved_data["window"].toInt()};
    const Gradients grad =
        Backward(Group(q, g), Group(k, g), Group(v, g), {saved[4], saved[5]},
                 Group(grads[0], g), saved[3], g);
    return {grad.dq.reshape(q.sizes()).to(q.scalar_type()),
            grad.dk.reshape(k.sizes()).to(k.scalar_type()),
            grad.dv.reshape(v.sizes()).to(v.scalar_type()),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor TiledAttention(const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const AttentionMask& mask,
                          int64_t tile) {
  std::optional<at::Tensor> segments;
  if (mask.segments.defined()) segments = mask.segments;
  return TiledAttentionFunction::apply(q, k, v, segments, mask.window, tile);
}

}  // namespace mpsd::model
