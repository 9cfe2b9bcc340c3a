// SPDX-License-Identifier: Apache-2.0
#include "core/fast/blocked_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpsd::fast {
namespace {

// Scores of one block, all rows and heads: few enough that a block of bf16
// stays below 256 MiB, and enough to be worth a block of its own.
constexpr int64_t kMaxScores = int64_t{1} << 27;
constexpr int64_t kMinScores = int64_t{1} << 24;
constexpr int64_t kMinQueries = 256;
// There calls cost little, and a block's scores stay in a cache.
constexpr int64_t kMinQueriesOnCpu = 64, kMaxQueriesOnCpu = 128;

// Small blocks leave out more of what causality hides; each costs a dozen
// calls.
int64_t QueriesPerBlock(const AttentionPlan& plan, const HeadShape& shape,
                        const Options& options) {
  int64_t count = plan.length;
  if (options.kernels == Kernels::kCpu) {
    count = std::clamp(count / 8, kMinQueriesOnCpu, kMaxQueriesOnCpu);
  }
  const int64_t by_query = plan.rows * shape.heads * plan.length;
  while (count > kMinQueries && count / 2 * by_query >= kMinScores) {
    count = (count + 1) / 2;
  }
  while (count > 32 && count * by_query > kMaxScores) count = (count + 1) / 2;
  return std::min(plan.length, (count + 31) / 32 * 32);
}

// The first key that one of the queries from `begin` on may see: the start of
// the earliest segment that reaches there, rounded down so that few shapes
// occur.
int64_t FirstKey(const AttentionPlan& plan, int64_t begin, int64_t step) {
  int64_t first = plan.segments.empty() ? 0 : begin;
  int64_t at = 0;
  for (const int64_t size : plan.segments) {
    const int64_t start = at % plan.length;
    if (start <= begin && begin < start + size) first = std::min(first, start);
    at += size;
  }
  if (plan.window > 0) first = std::max(first, begin - plan.window + 1);
  return first / step * step;
}

at::Tensor BlockMask(const model::DecoderInputs& inputs,
                     const AttentionPlan& plan, const QueryBlock& b,
                     int64_t group, at::ScalarType dtype) {
  const auto longs = inputs.input_ids.options();
  const int64_t first = b.first_key, keys = b.keys;
  const at::Tensor distance =
      at::arange(b.begin, b.begin + b.count, longs).unsqueeze(1) -
      at::arange(first, first + keys, longs).unsqueeze(0);
  at::Tensor hidden = distance < 0;
  if (plan.window > 0) hidden = hidden.logical_or(distance >= plan.window);
  hidden = hidden.unsqueeze(0);
  if (inputs.segment_ids.defined()) {
    const at::Tensor& ids = inputs.segment_ids;
    hidden = hidden.logical_or(ids.narrow(1, b.begin, b.count).unsqueeze(2) !=
                               ids.narrow(1, first, keys).unsqueeze(1));
  }
  const int64_t rows = hidden.size(0);
  return at::zeros(hidden.sizes(), longs.dtype(dtype))
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity())
      .unsqueeze(2)
      .expand({rows, b.count, group, keys})
      .reshape({rows, b.count * group, keys});
}

struct Sizes {
  int64_t rows, kv_heads, group, length, dim;
  int64_t batch() const { return rows * kv_heads; }
};

Sizes SizesOf(const AttentionPlan& plan, const HeadShape& shape) {
  return {plan.rows, shape.kv_heads, shape.heads / shape.kv_heads, plan.length,
          shape.dim};
}

at::Tensor Narrowed(const at::Tensor& x, int64_t begin, int64_t count) {
  return count == x.size(1) ? x : x.narrow(1, begin, count);
}

// Of all heads' [rows · kv_heads, .., dim] those of a block.
at::Tensor Queries(const at::Tensor& x, const QueryBlock& b, const Sizes& s) {
  return Narrowed(x, b.begin * s.group, b.count * s.group);
}

at::Tensor Keys(const at::Tensor& x, const QueryBlock& b) {
  return Narrowed(x, b.first_key, b.keys);
}

// As matrices by row and kv head.
at::Tensor AllQueries(const at::Tensor& x, const Sizes& s) {
  return x.view({s.batch(), s.length * s.group, s.dim});
}

at::Tensor AllKeys(const at::Tensor& x, const Sizes& s) {
  return x.view({s.batch(), s.length, s.dim});
}

// scale · a b of matrices in a batch.
at::Tensor ScaledProduct(const at::Tensor& a, const at::Tensor& b, double scale,
                         const at::Tensor& zero) {
  return at::baddbmm(zero, a, b, /*beta=*/0, scale);
}

// [rows · kv_heads, count · group, keys]
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& k,
                         const QueryBlock& b, const Sizes& s,
                         const at::Tensor& zero) {
  const double scale = 1 / std::sqrt(s.dim);
  const at::Tensor across = k.transpose(1, 2);
  at::Tensor scores;
  if (b.mask.size(0) == 1) {
    scores = at::baddbmm(b.mask, q, across, /*beta=*/1, scale);
  } else {
    scores = ScaledProduct(q, across, scale, zero);
    scores.view({s.rows, s.kv_heads, -1, b.keys}).add_(b.mask.unsqueeze(1));
  }
  return at::_softmax(scores, -1, /*half_to_float=*/false);
}

// A transposed left operand. As a view it gives wrong products in fp32 on MPS
// (pytorch#193487).
at::Tensor Left(const at::Tensor& x, const Options& options) {
  const at::Tensor view = x.transpose(1, 2);
  return options.mps() && x.scalar_type() == at::kFloat ? view.contiguous()
                                                        : view;
}

at::Tensor Joined(const std::vector<at::Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

// Sums over blocks of gradients by keys.
class KeySums {
 public:
  // Key blocks are as long as query blocks, and begin where those do.
  KeySums(const AttentionPlan& plan, const Options& options)
      : plan_(plan), in_place_(!options.mps()), parts_(plan.blocks.size()) {}

  // `x` [rows · kv_heads, keys of the block, dim].
  void Add(const QueryBlock& block, const at::Tensor& x) {
    if (in_place_) {
      if (!sum_.defined()) {
        sum_ = at::zeros({x.size(0), plan_.length, x.size(2)}, x.options());
      }
      sum_.narrow(1, block.first_key, block.keys).add_(x);
      return;
    }
    // Kernels of MPS go wrong on targets that are not contiguous.
    const int64_t step = plan_.blocks[0].count;
    for (int64_t key = 0; key < block.keys; key += step) {
      const int64_t size = std::min(step, block.keys - key);
      const at::Tensor piece = Narrowed(x, key, size);
      at::Tensor& part = parts_[(block.first_key + key) / step];
      part = part.defined() ? part + piece : piece;
    }
  }
  // A block always sees its own keys: every part is there.
  at::Tensor Take() const { return in_place_ ? sum_ : Joined(parts_); }

 private:
  const AttentionPlan& plan_;
  const bool in_place_;
  at::Tensor sum_;
  std::vector<at::Tensor> parts_;
};

}  // namespace

std::vector<QueryBlock> PlanBlocks(const model::DecoderInputs& inputs,
                                   const AttentionPlan& plan,
                                   const HeadShape& shape,
                                   const Options& options) {
  const int64_t count = QueriesPerBlock(plan, shape, options);
  std::vector<QueryBlock> blocks;
  for (int64_t begin = 0; begin < plan.length; begin += count) {
    QueryBlock b;
    b.begin = begin;
    b.count = std::min(count, plan.length - begin);
    b.first_key = FirstKey(plan, begin, count);
    b.keys = begin + b.count - b.first_key;
    b.mask =
        BlockMask(inputs, plan, b, shape.heads / shape.kv_heads, options.dtype);
    blocks.push_back(std::move(b));
  }
  return blocks;
}

at::Tensor BlockedForward(const AttentionPlan& plan, const HeadShape& shape,
                          const AttentionTape& tape) {
  const Sizes s = SizesOf(plan, shape);
  const at::Tensor q = AllQueries(tape.q, s);
  const at::Tensor k = AllKeys(tape.k, s), v = AllKeys(tape.v, s);
  std::vector<at::Tensor> out;
  for (const QueryBlock& b : plan.blocks) {
    const at::Tensor p =
        Probabilities(Queries(q, b, s), Keys(k, b), b, s, plan.zero);
    out.push_back(at::bmm(p, Keys(v, b)));
  }
  return Joined(out).view(tape.q.sizes());
}

BlockedGradients BlockedBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape) {
  const Sizes s = SizesOf(plan, shape);
  const double scale = 1 / std::sqrt(s.dim);
  const at::Tensor all_q = AllQueries(tape.q, s), all_d = AllQueries(dout, s);
  const at::Tensor all_k = AllKeys(tape.k, s), all_v = AllKeys(tape.v, s);
  std::vector<at::Tensor> dq;
  KeySums dk(plan, options), dv(plan, options);
  for (const QueryBlock& b : plan.blocks) {
    const at::Tensor q = Queries(all_q, b, s), k = Keys(all_k, b);
    const at::Tensor d = Queries(all_d, b, s);
    const at::Tensor p = Probabilities(q, k, b, s, plan.zero);
    dv.Add(b, at::bmm(Left(p, options), d));
    const at::Tensor dp = at::bmm(d, Keys(all_v, b).transpose(1, 2));
    const at::Tensor ds =
        at::_softmax_backward_data(dp, p, -1, p.scalar_type());
    dq.push_back(ScaledProduct(ds, k, scale, plan.zero));
    dk.Add(b, ScaledProduct(Left(ds, options), q, scale, plan.zero));
  }
  return {Joined(dq).view(tape.q.sizes()), dk.Take().view(tape.k.sizes()),
          dv.Take().view(tape.v.sizes())};
}

}  // namespace mpsd::fast
