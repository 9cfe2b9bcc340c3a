// SPDX-License-Identifier: Apache-2.0
#include "core/model/blocked_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>
#include <vector>

#include "core/model/block_plan.h"
#include "core/base/check.h"

namespace mpsd::attention {
namespace {

// `group` query heads share the keys of a kv head.
struct Sizes {
  int64_t rows, kv_heads, group, length, dim;
  int64_t batch() const { return rows * kv_heads; }
};

Sizes SizesOf(const AttentionPlan& plan, const HeadShape& shape) {
  return {.rows = plan.rows,
          .kv_heads = shape.kv_heads,
          .group = shape.heads / shape.kv_heads,
          .length = plan.length,
          .dim = shape.dim};
}

at::Tensor Narrowed(const at::Tensor& x, int64_t begin, int64_t count) {
  return count == x.size(1) ? x : x.narrow(1, begin, count);
}

// The block's part of the queries of all heads, [rows · kv_heads, length ·
// group, dim].
at::Tensor Queries(const at::Tensor& x, const QueryBlock& b, const Sizes& s) {
  return Narrowed(x, b.begin * s.group, b.count * s.group);
}

at::Tensor Keys(const at::Tensor& x, const QueryBlock& b) {
  return Narrowed(x, b.first_key, b.keys);
}

// All queries, and all keys or values, as one matrix for each row and kv head.
at::Tensor AllQueries(const at::Tensor& x, const Sizes& s) {
  return x.view({s.batch(), s.length * s.group, s.dim});
}

at::Tensor AllKeys(const at::Tensor& x, const Sizes& s) {
  return x.view({s.batch(), s.length, s.dim});
}

// scale · a b for each matrix of a batch: one call. bmm has no scale, and with
// beta 0 baddbmm never reads `zero`.
at::Tensor ScaledProduct(const at::Tensor& a, const at::Tensor& b, double scale,
                         const at::Tensor& zero) {
  return at::baddbmm(zero, a, b, /*beta=*/0, scale);
}

// softmax(q kᵀ / sqrt(dim) + mask) of one block, [rows · kv_heads, count ·
// group, keys].
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& k,
                         const AttentionPlan& plan, const QueryBlock& b,
                         const Sizes& s) {
  const double scale = 1 / std::sqrt(s.dim);
  const at::Tensor across = k.transpose(1, 2);
  const at::Tensor mask = MaskOf(plan, b);
  at::Tensor scores;
  if (mask.dim() == 3) {
    scores = at::baddbmm(mask, q, across, /*beta=*/1, scale);
  } else {
    const at::Tensor products = at::bmm(q, across);
    scores =
        at::add(mask,
                products.view({s.rows, s.kv_heads, b.count, s.group, b.keys}),
                scale)
            .view(products.sizes());
  }
  return at::_softmax(scores, -1, /*half_to_float=*/false);
}

// xᵀ as the left operand of a GEMM: a copy if the device multiplies transposed
// fp32 views incorrectly.
at::Tensor TransposedLeft(const at::Tensor& x, const Options& options) {
  const at::Tensor view = x.transpose(1, 2);
  const bool right =
      options.traits.transposed_left || x.scalar_type() != at::kFloat;
  return right ? view : view.contiguous();
}

// The values as read by dp = do vᵀ. Subtracting one vector from all values
// shifts every dp of a query by the same number, which ds = p ∘ (dp − Σ p ∘ dp)
// cancels. A softmax backward that sums in bf16 (MPS) would lose the small
// differences between the dp of a query in that common part, so the mean value
// is subtracted first.
at::Tensor Centred(const at::Tensor& v, const Options& options) {
  if (options.traits.exact_softmax_backward || v.scalar_type() == at::kFloat) {
    return v;
  }
  return v - v.mean({1}, /*keepdim=*/true);
}

// Joins the results of blocks along the queries. The blocks come last one
// first: the last block sees most keys, so the memory it frees fits every other
// block. In the opposite order each block would outgrow the memory freed
// before.
at::Tensor JoinBlocks(std::vector<at::Tensor> parts) {
  base::Check(!parts.empty(), "the plan has blocks");
  if (parts.size() == 1) return parts[0];
  std::reverse(parts.begin(), parts.end());
  return at::cat(parts, 1);
}

// Adds up the gradients by keys or values over all blocks.
class KeySums {
 public:
  // If the device must not write into strided views, the sum is stored key by
  // key: the keys of a block are then a contiguous slice.
  KeySums(const AttentionPlan& plan, const Options& options)
      : plan_(plan), by_key_(!options.traits.strided_targets) {}

  // `x` has [rows · kv_heads, keys of the block, dim].
  void Add(const QueryBlock& block, const at::Tensor& x) {
    if (!sum_.defined() && block.keys == plan_.length) {
      sum_ = InMemory(x);
      return;
    }
    if (!sum_.defined()) {
      std::vector<int64_t> sizes = {x.size(0), plan_.length, x.size(2)};
      if (by_key_) std::swap(sizes[0], sizes[1]);
      sum_ = at::zeros(sizes, x.options());
    }
    sum_.narrow(by_key_ ? 0 : 1, block.first_key, block.keys)
        .add_(by_key_ ? x.transpose(0, 1) : x);
  }
  // The sum, [rows · kv_heads, length, dim].
  at::Tensor Take() const {
    base::Check(sum_.defined(), "Add comes before Take");
    return by_key_ && plan_.blocks.size() > 1 ? sum_.transpose(0, 1) : sum_;
  }

 private:
  at::Tensor InMemory(const at::Tensor& x) const {
    if (!by_key_ || plan_.blocks.size() == 1) return x;
    return x.transpose(0, 1).contiguous();
  }

  const AttentionPlan& plan_;
  const bool by_key_;
  at::Tensor sum_;
};

}  // namespace

at::Tensor BlockedForward(const AttentionPlan& plan, const HeadShape& shape,
                          const AttentionTape& tape) {
  const Sizes s = SizesOf(plan, shape);
  const at::Tensor q = AllQueries(tape.q, s);
  const at::Tensor k = AllKeys(tape.k, s), v = AllKeys(tape.v, s);
  std::vector<at::Tensor> out;
  for (const QueryBlock& b : std::views::reverse(plan.blocks)) {
    const at::Tensor p =
        Probabilities(Queries(q, b, s), Keys(k, b), plan, b, s);
    out.push_back(at::bmm(p, Keys(v, b)));
  }
  return JoinBlocks(std::move(out)).view(tape.q.sizes());
}

BlockedGradients BlockedBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape) {
  const Sizes s = SizesOf(plan, shape);
  const double scale = 1 / std::sqrt(s.dim);
  const at::Tensor all_q = AllQueries(tape.q, s), all_d = AllQueries(dout, s);
  const at::Tensor all_k = AllKeys(tape.k, s), all_v = AllKeys(tape.v, s);
  const at::Tensor centred = Centred(all_v, options);
  std::vector<at::Tensor> dq;
  KeySums dk(plan, options), dv(plan, options);
  for (const QueryBlock& b : std::views::reverse(plan.blocks)) {
    const at::Tensor q = Queries(all_q, b, s), k = Keys(all_k, b);
    const at::Tensor d = Queries(all_d, b, s);
    const at::Tensor p = Probabilities(q, k, plan, b, s);
    dv.Add(b, at::bmm(TransposedLeft(p, options), d));
    const at::Tensor dp = at::bmm(d, Keys(centred, b).transpose(1, 2));
    const at::Tensor ds =
        at::_softmax_backward_data(dp, p, -1, p.scalar_type());
    // These two products also scale the scores: a pass over ds, the largest
    // tensor here, would cost more.
    dq.push_back(ScaledProduct(ds, k, scale, plan.zero));
    dk.Add(b, ScaledProduct(TransposedLeft(ds, options), q, scale, plan.zero));
  }
  return {JoinBlocks(std::move(dq)).view(tape.q.sizes()),
          dk.Take().view(tape.k.sizes()), dv.Take().view(tape.v.sizes())};
}

}  // namespace mpsd::attention
