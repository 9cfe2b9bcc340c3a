// SPDX-License-Identifier: Apache-2.0
#include "core/model/planned_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>
#include <utility>

#include "core/base/check.h"

namespace mpsd::attention {
namespace {

// The blocked backward after a blocked forward: the tape has its layout.
AttentionInputs BackwardOfBlocks(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const HeadShape& shape, const Options& options,
                                 const AttentionTape& tape) {
  const BlockedGradients grad = BlockedBackward(
      ToBlockedLayout(plan.ByRow(dout, shape.dim), shape.kv_heads), plan, shape,
      options, tape);
  return {.q = FromBlockedLayout(grad.q),
          .k = FromBlockedLayout(grad.k),
          .v = FromBlockedLayout(grad.v)};
}

// The blocked backward after a fused forward. Each query head gets its own keys
// and values: threads then share more, equal pieces, which is worth more than
// the copies.
AttentionInputs BackwardByHeads(const at::Tensor& dout,
                                const AttentionPlan& plan,
                                const HeadShape& shape, const Options& options,
                                const AttentionTape& tape) {
  // For a single row a transposed view is the batch of heads: no copy.
  const auto by_head = [&](const at::Tensor& x) {
    return plan.rows == 1 ? SwapTokensAndHeads(x).unsqueeze(3)
                          : ToBlockedLayout(x, shape.heads);
  };
  AttentionTape each;
  each.q = by_head(tape.q);
  each.k = by_head(ForEachHead(tape.k, shape));
  each.v = by_head(ForEachHead(tape.v, shape));
  const BlockedGradients grad =
      BlockedBackward(by_head(plan.ByRow(dout, shape.dim)), plan,
                      EachWithKeys(shape), options, each);
  return {.q = FromBlockedLayout(grad.q),
          .k = FromEachHead(FromBlockedLayout(grad.k), shape),
          .v = FromEachHead(FromBlockedLayout(grad.v), shape)};
}

}  // namespace

at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
                            AttentionTape& tape) {
  tape.lse.clear();
  const bool blocked = plan.forward == PlannedKernel::kBlocked;
  const auto kept = [&](const at::Tensor& x) {
    return blocked ? ToBlockedLayout(x, shape.kv_heads) : x;
  };
  tape.q = kept(inputs.q);
  tape.k = kept(inputs.k);
  tape.v = kept(inputs.v);
  at::Tensor out;
  switch (plan.forward) {
    case PlannedKernel::kBlocked:
      out = FromBlockedLayout(BlockedForward(plan, shape, tape));
      break;
    case PlannedKernel::kFlashCpu:
      out = FlashCpuForward(plan, tape);
      break;
    case PlannedKernel::kFlashCuda:
      out = FlashCudaForward(plan, tape);
      break;
    case PlannedKernel::kCudnn:
      out = CudnnForward(plan, tape);
      break;
  }
  return tape.out = plan.Tokens(out);
}

AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape) {
  switch (plan.backward) {
    case PlannedKernel::kBlocked:
      break;
    case PlannedKernel::kFlashCpu:
      return FlashCpuBackward(dout, plan, tape);
    case PlannedKernel::kFlashCuda:
      return FlashCudaBackward(dout, plan, tape);
    case PlannedKernel::kCudnn:
      return CudnnBackward(dout, plan, tape);
  }
  return plan.forward == PlannedKernel::kBlocked
             ? BackwardOfBlocks(dout, plan, shape, options, tape)
             : BackwardByHeads(dout, plan, shape, options, tape);
}

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

// softmax(s q kᵀ + mask) of one block, [rows · kv_heads, count ·
// group, keys]. Of capped scores t of AttentionBackward, if `capped` is given.
at::Tensor Probabilities(const at::Tensor& q, const at::Tensor& k,
                         const AttentionPlan& plan, const QueryBlock& b,
                         const Sizes& s, at::Tensor* capped = nullptr) {
  const double scale = plan.scale;
  const at::Tensor across = k.transpose(1, 2);
  const at::Tensor mask = MaskOf(plan, b);
  at::Tensor scores;
  if (plan.softcap > 0) {
    const at::Tensor t = at::bmm(q, across).mul_(scale / plan.softcap).tanh_();
    if (capped != nullptr) *capped = t;
    scores =
        (mask.dim() == 3
             ? at::add(mask, t, plan.softcap)
             : at::add(mask,
                       t.view({s.rows, s.kv_heads, b.count, s.group, b.keys}),
                       plan.softcap))
            .view(t.sizes());
  } else if (mask.dim() == 3) {
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
  const double scale = plan.scale;
  const at::Tensor all_q = AllQueries(tape.q, s), all_d = AllQueries(dout, s);
  const at::Tensor all_k = AllKeys(tape.k, s), all_v = AllKeys(tape.v, s);
  const at::Tensor centred = Centred(all_v, options);
  std::vector<at::Tensor> dq;
  KeySums dk(plan, options), dv(plan, options);
  for (const QueryBlock& b : std::views::reverse(plan.blocks)) {
    const at::Tensor q = Queries(all_q, b, s), k = Keys(all_k, b);
    const at::Tensor d = Queries(all_d, b, s);
    at::Tensor capped;
    const at::Tensor p = Probabilities(q, k, plan, b, s, &capped);
    dv.Add(b, at::bmm(TransposedLeft(p, options), d));
    const at::Tensor dp = at::bmm(d, Keys(centred, b).transpose(1, 2));
    const at::Tensor ds =
        at::_softmax_backward_data(dp, p, -1, p.scalar_type());
    if (capped.defined()) ds.mul_(1 - capped.square());
    // These two products also scale the scores: a pass over ds, the largest
    // tensor here, would cost more.
    dq.push_back(ScaledProduct(ds, k, scale, plan.zero));
    dk.Add(b, ScaledProduct(TransposedLeft(ds, options), q, scale, plan.zero));
  }
  return {JoinBlocks(std::move(dq)).view(tape.q.sizes()),
          dk.Take().view(tape.k.sizes()), dv.Take().view(tape.v.sizes())};
}

namespace {

// Takes the tokens of one segment out of [rows, length, heads, dim]: a view [1,
// size, heads, dim]. A segment is within one row, so the rows may be joined.
struct Segment {
  int64_t begin, size;
  at::Tensor operator()(const at::Tensor& x) const {
    return x.flatten(0, 1).narrow(0, begin, size).unsqueeze(0);
  }
};

template <typename Visit>
void ForEachSegment(const AttentionPlan& plan, const Visit& visit) {
  int64_t begin = 0;
  for (const int64_t size : plan.segments) {
    visit(Segment{begin, size});
    begin += size;
  }
  base::CheckEqual(begin, plan.rows * plan.length, "tokens of all segments");
}

// Attends within each row of [n, size, heads, dim]; appends to `lse`.
at::Tensor Attend(const AttentionInputs& x, double scale,
                  std::vector<at::Tensor>& lse) {
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      SwapTokensAndHeads(x.q), SwapTokensAndHeads(x.k), SwapTokensAndHeads(x.v),
      /*dropout_p=*/0.0,
      /*is_causal=*/true, /*attn_mask=*/std::nullopt, scale);
  lse.push_back(sums);
  return SwapTokensAndHeads(out);
}

AttentionInputs AttendBackward(const at::Tensor& dout, const AttentionInputs& x,
                               double scale, const at::Tensor& out,
                               const at::Tensor& lse) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      SwapTokensAndHeads(dout), SwapTokensAndHeads(x.q),
      SwapTokensAndHeads(x.k), SwapTokensAndHeads(x.v), SwapTokensAndHeads(out),
      lse,
      /*dropout_p=*/0.0, /*is_causal=*/true, /*attn_mask=*/std::nullopt, scale);
  return {.q = SwapTokensAndHeads(dq),
          .k = SwapTokensAndHeads(dk),
          .v = SwapTokensAndHeads(dv)};
}

}  // namespace

at::Tensor FlashCpuForward(const AttentionPlan& plan, AttentionTape& tape) {
  base::CheckEqual(plan.window, 0,
                   "the window of a flash attention on the CPU");
  if (plan.segments.empty()) {
    return Attend({tape.q, tape.k, tape.v}, plan.scale, tape.lse);
  }
  at::Tensor out = at::empty(tape.q.sizes(), tape.q.options());
  ForEachSegment(plan, [&](const Segment& of) {
    of(out).copy_(
        Attend({of(tape.q), of(tape.k), of(tape.v)}, plan.scale, tape.lse));
  });
  return out;
}

AttentionInputs FlashCpuBackward(const at::Tensor& dout,
                                 const AttentionPlan& plan,
                                 const AttentionTape& tape) {
  const int64_t dim = tape.q.size(-1);
  const at::Tensor d = plan.ByRow(dout, dim), out = plan.ByRow(tape.out, dim);
  if (plan.segments.empty()) {
    return AttendBackward(d, {tape.q, tape.k, tape.v}, plan.scale, out,
                          tape.lse[0]);
  }
  AttentionInputs grad{.q = at::empty_like(tape.q),
                       .k = at::empty_like(tape.k),
                       .v = at::empty_like(tape.v)};
  size_t i = 0;
  ForEachSegment(plan, [&](const Segment& of) {
    base::CheckLess(i, tape.lse.size(), "a segment that went forward");
    const AttentionInputs part =
        AttendBackward(of(d), {of(tape.q), of(tape.k), of(tape.v)}, plan.scale,
                       of(out), tape.lse[i++]);
    of(grad.q).copy_(part.q);
    of(grad.k).copy_(part.k);
    of(grad.v).copy_(part.v);
  });
  return grad;
}

namespace {

// The kernel's arguments other than q, k and v, for forward and backward.
struct KernelArguments {
  bool packed;
  int64_t longest;  // tokens of the longest row or segment
  // How many keys before and after the query's own it sees; absent: all. The
  // kernel hides later keys itself, but with a window it needs both sides.
  std::optional<int64_t> left, right;

  // Packed tokens as [tokens, heads, dim], else unchanged.
  at::Tensor Shaped(const at::Tensor& x) const {
    return packed ? x.flatten(0, 1) : x;
  }
};

KernelArguments ArgumentsOf(const AttentionPlan& plan) {
  const bool packed = !plan.segments.empty();
  base::Check(!packed || plan.segment_starts.defined(),
              "packed rows have the starts of their segments");
  KernelArguments arguments{
      .packed = packed,
      .longest = packed ? plan.longest_segment : plan.length,
      .left = std::nullopt,
      .right = std::nullopt};
  if (plan.window > 0) {
    arguments.left = plan.window - 1;  // a window counts the query's own key
    arguments.right = 0;
  }
  return arguments;
}

}  // namespace

at::Tensor FlashCudaForward(const AttentionPlan& plan, AttentionTape& tape) {
  const KernelArguments a = ArgumentsOf(plan);
  std::optional<at::Tensor> starts;
  if (a.packed) starts = plan.segment_starts;
  auto [out, lse, random, unused, debug] = at::_flash_attention_forward(
      a.Shaped(tape.q), a.Shaped(tape.k), a.Shaped(tape.v), starts, starts,
      a.longest, a.longest, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, plan.scale, a.left, a.right);
  tape.lse = {lse};
  tape.random = random;
  tape.unused = unused;
  return out;
}

AttentionInputs FlashCudaBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const AttentionTape& tape) {
  const KernelArguments a = ArgumentsOf(plan);
  const int64_t dim = tape.q.size(-1);
  // The backward takes an undefined tensor where the forward takes nullopt.
  const at::Tensor starts = a.packed ? plan.segment_starts : at::Tensor();
  base::CheckEqual(tape.lse.size(), 1, "sums of the forward");
  auto [dq, dk, dv] = at::_flash_attention_backward(
      a.Shaped(plan.ByRow(dout, dim)), a.Shaped(tape.q), a.Shaped(tape.k),
      a.Shaped(tape.v), a.Shaped(plan.ByRow(tape.out, dim)), tape.lse[0],
      starts, starts, a.longest, a.longest, /*dropout_p=*/0.0,
      /*is_causal=*/true, tape.random, tape.unused, plan.scale, a.left,
      a.right);
  if (!a.packed) return {.q = dq, .k = dk, .v = dv};
  return {.q = plan.ByRow(dq, dim),
          .k = plan.ByRow(dk, dim),
          .v = plan.ByRow(dv, dim)};
}

at::Tensor CudnnForward(const AttentionPlan& plan, AttentionTape& tape) {
  auto [out, lse, starts_q, starts_k, longest_q, longest_k, seed, offset,
        debug] =
      at::_scaled_dot_product_cudnn_attention(
          SwapTokensAndHeads(tape.q), SwapTokensAndHeads(tape.k),
          SwapTokensAndHeads(tape.v),
          /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true,
          /*dropout_p=*/0.0, /*is_causal=*/true,
          /*return_debug_mask=*/false, plan.scale);
  tape.lse = {lse};
  tape.random = seed;
  tape.unused = offset;
  return SwapTokensAndHeads(out);
}

AttentionInputs CudnnBackward(const at::Tensor& dout, const AttentionPlan& plan,
                              const AttentionTape& tape) {
  const int64_t dim = tape.q.size(-1);
  base::CheckEqual(tape.lse.size(), 1, "sums of the forward");
  auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      SwapTokensAndHeads(plan.ByRow(dout, dim)), SwapTokensAndHeads(tape.q),
      SwapTokensAndHeads(tape.k), SwapTokensAndHeads(tape.v),
      SwapTokensAndHeads(plan.ByRow(tape.out, dim)), tape.lse[0], tape.random,
      tape.unused, /*attn_bias=*/at::Tensor(),
      /*cum_seq_q=*/at::Tensor(), /*cum_seq_k=*/at::Tensor(), plan.length,
      plan.length, /*dropout_p=*/0.0, /*is_causal=*/true, plan.scale);
  return {.q = SwapTokensAndHeads(dq),
          .k = SwapTokensAndHeads(dk),
          .v = SwapTokensAndHeads(dv)};
}

}  // namespace mpsd::attention
