// SPDX-License-Identifier: Apache-2.0
#include "core/attention/attention_plan.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "core/attention/blocked_attention.h"
#include "core/base/check.h"

namespace mpsd::attention {
namespace {

using backend::FusedAttention;

// Whether CUDA's flash attention has a kernel for these heads in this dtype.
bool IsForFlash(const HeadShape& shape, const Options& options) {
  return options.dtype != at::kFloat && shape.dim % 8 == 0 && shape.dim <= 256;
}

bool ByBlocks(const AttentionPlan& plan, const HeadShape& shape,
              const Options& options) {
  switch (options.traits.fused_attention) {
    case FusedAttention::kNone:
      return true;
    case FusedAttention::kByRow:
      return plan.window > 0;
    case FusedAttention::kByToken:
      return !IsForFlash(shape, options);
  }
  return true;
}

bool ByToken(const Options& options) {
  return options.traits.fused_attention == FusedAttention::kByToken;
}

// Whether the forward is fused and the backward blocked: in fp32, where ATen's
// backward on the CPU is the slower one. In bf16 that backward is as slow as
// the blocked one, but keeps more of the scores' bits.
bool OnlyBackwardByBlocks(const AttentionPlan& plan, const Options& options) {
  return options.traits.slow_attention_backward &&
         options.dtype == at::kFloat && plan.window == 0 &&
         plan.segments.empty();
}

// The shape in which each query head has keys and values of its own: threads
// then share more, equal pieces.
HeadShape EachWithKeys(const HeadShape& shape) {
  return {shape.heads, shape.heads, shape.dim};
}

// The window in the terms of CUDA's kernel: how many keys before the query it
// sees, the query's own key not counted.
std::optional<int64_t> WindowLeft(const AttentionPlan& plan) {
  if (plan.window == 0) return std::nullopt;
  return plan.window - 1;
}

std::optional<int64_t> WindowRight(const AttentionPlan& plan) {
  if (plan.window == 0) return std::nullopt;
  return 0;
}

// Joins the rows into one sequence where segments are told apart by their
// starts: the kernel takes packed tokens as [tokens, heads, dim].
at::Tensor ForCuda(const at::Tensor& x, const AttentionPlan& plan) {
  return plan.segments.empty() ? x : x.flatten(0, 1);
}

// Below this many numbers of q cuDNN's attention costs the host more time than
// it saves the device.
constexpr int64_t kMinForCudnn = int64_t{3} << 20;

// Whether cuDNN's attention computes this plan.
bool ByCudnn(const AttentionPlan& plan, const HeadShape& shape,
             const Options& options) {
  return ByToken(options) && options.dtype != at::kFloat && plan.window == 0 &&
         plan.segments.empty() && shape.dim % 8 == 0 && shape.dim <= 128 &&
         plan.rows * plan.length * shape.heads * shape.dim >= kMinForCudnn;
}

at::Tensor ByHead(const at::Tensor& x) { return x.transpose(1, 2); }

at::Tensor ForwardOnCudnn(AttentionTape& tape) {
  auto [out, lse, starts_q, starts_k, longest_q, longest_k, seed, offset,
        debug] =
      at::_scaled_dot_product_cudnn_attention(
          ByHead(tape.q), ByHead(tape.k), ByHead(tape.v),
          /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true,
          /*dropout_p=*/0.0, /*is_causal=*/true);
  tape.lse = {lse};
  tape.random = seed;
  tape.unused = offset;
  return ByHead(out);
}

AttentionInputs BackwardOnCudnn(const at::Tensor& dout,
                                const AttentionPlan& plan,
                                const AttentionTape& tape) {
  auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      ByHead(plan.ByRow(dout, tape.q.size(-1))), ByHead(tape.q), ByHead(tape.k),
      ByHead(tape.v), ByHead(plan.ByRow(tape.out, tape.q.size(-1))),
      tape.lse[0], tape.random, tape.unused, /*attn_bias=*/at::Tensor(),
      /*cum_seq_q=*/at::Tensor(), /*cum_seq_k=*/at::Tensor(), plan.length,
      plan.length, /*dropout_p=*/0.0, /*is_causal=*/true);
  return {ByHead(dq), ByHead(dk), ByHead(dv)};
}

at::Tensor ForwardOnCuda(const AttentionPlan& plan, AttentionTape& tape) {
  std::optional<at::Tensor> starts;
  if (!plan.segments.empty()) starts = plan.segment_starts;
  const int64_t longest =
      plan.segments.empty() ? plan.length : plan.longest_segment;
  auto [out, lse, random, unused, debug] = at::_flash_attention_forward(
      ForCuda(tape.q, plan), ForCuda(tape.k, plan), ForCuda(tape.v, plan),
      starts, starts, longest, longest, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt, WindowLeft(plan),
      WindowRight(plan));
  tape.lse = {lse};
  tape.random = random;
  tape.unused = unused;
  return out;
}

AttentionInputs BackwardOnCuda(const at::Tensor& dout,
                               const AttentionPlan& plan,
                               const HeadShape& shape,
                               const AttentionTape& tape) {
  const at::Tensor starts =
      plan.segments.empty() ? at::Tensor() : plan.segment_starts;
  const int64_t longest =
      plan.segments.empty() ? plan.length : plan.longest_segment;
  const auto like_q = [&](const at::Tensor& x) {
    return ForCuda(plan.ByRow(x, shape.dim), plan);
  };
  auto [dq, dk, dv] = at::_flash_attention_backward(
      like_q(dout), ForCuda(tape.q, plan), ForCuda(tape.k, plan),
      ForCuda(tape.v, plan), like_q(tape.out), tape.lse[0], starts, starts,
      longest, longest, /*dropout_p=*/0.0, /*is_causal=*/true, tape.random,
      tape.unused, /*scale=*/std::nullopt, WindowLeft(plan), WindowRight(plan));
  if (plan.segments.empty()) return {dq, dk, dv};
  return {plan.ByRow(dq, shape.dim), plan.ByRow(dk, shape.dim),
          plan.ByRow(dv, shape.dim)};
}

// Calls `visit` with views of `tensors`, [n, length, heads, dim] each: once
// with all rows or, where rows are packed, once for each segment, which attends
// within itself.
template <typename Visit>
void ForEachSegment(const AttentionPlan& plan,
                    const std::vector<at::Tensor>& tensors,
                    const Visit& visit) {
  if (plan.segments.empty()) return visit(tensors);
  int64_t at = 0;
  for (const int64_t size : plan.segments) {
    std::vector<at::Tensor> views;
    for (const at::Tensor& t : tensors) {
      views.push_back(t.flatten(0, 1).narrow(0, at, size).unsqueeze(0));
    }
    visit(views);
    at += size;
  }
  base::CheckEqual(at, plan.rows * plan.length, "tokens of all segments");
}

at::Tensor ForwardOnCpu(const AttentionPlan& plan, AttentionTape& tape) {
  at::Tensor out;
  if (!plan.segments.empty()) {
    out = at::empty(tape.q.sizes(), tape.q.options());
  }
  ForEachSegment(plan, {tape.q, tape.k, tape.v, out.defined() ? out : tape.q},
                 [&](const std::vector<at::Tensor>& t) {
                   auto [o, lse] =
                       at::_scaled_dot_product_flash_attention_for_cpu(
                           ByHead(t[0]), ByHead(t[1]), ByHead(t[2]), 0.0,
                           /*is_causal=*/true);
                   tape.lse.push_back(lse);
                   const at::Tensor by_token = ByHead(o);
                   if (out.defined()) {
                     t[3].copy_(by_token);
                   } else {
                     out = by_token;
                   }
                 });
  return out;
}

AttentionInputs FlashBackwardOnCpu(const at::Tensor& dout,
                                   const AttentionPlan& plan,
                                   const AttentionTape& tape) {
  AttentionInputs grad;
  if (!plan.segments.empty()) {
    grad = {at::empty_like(tape.q), at::empty_like(tape.k),
            at::empty_like(tape.v)};
  }
  const bool split = grad.q.defined();
  size_t i = 0;
  ForEachSegment(
      plan,
      {plan.ByRow(dout, tape.q.size(-1)), tape.q, tape.k, tape.v,
       plan.ByRow(tape.out, tape.q.size(-1)), split ? grad.q : tape.q,
       split ? grad.k : tape.k, split ? grad.v : tape.v},
      [&](const std::vector<at::Tensor>& t) {
        base::CheckLess(i, tape.lse.size(), "a segment that went forward");
        auto [dq, dk, dv] =
            at::_scaled_dot_product_flash_attention_for_cpu_backward(
                ByHead(t[0]), ByHead(t[1]), ByHead(t[2]), ByHead(t[3]),
                ByHead(t[4]), tape.lse[i++], 0.0,
                /*is_causal=*/true);
        if (!split) {
          grad = {ByHead(dq), ByHead(dk), ByHead(dv)};
          return;
        }
        t[5].copy_(ByHead(dq));
        t[6].copy_(ByHead(dk));
        t[7].copy_(ByHead(dv));
      });
  return grad;
}

// [rows, length, heads, dim] → [rows, kv_heads, length, heads / kv_heads, dim],
// contiguous: the layout of blocked attention.
at::Tensor ForBlocks(const at::Tensor& x, int64_t kv_heads) {
  base::CheckEqual(x.size(2) % kv_heads, 0, "heads beyond whole groups");
  const int64_t group = x.size(2) / kv_heads;
  return x.unflatten(2, {kv_heads, group})
      .permute({0, 2, 1, 3, 4})
      .contiguous();
}

// The reverse of ForBlocks: [rows, length, heads, dim].
at::Tensor FromBlocks(const at::Tensor& x) {
  return x.permute({0, 2, 1, 3, 4}).flatten(/*start_dim=*/2, /*end_dim=*/3);
}

// Repeats keys or values for every query head that shares them.
at::Tensor ForEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  if (group == 1) return x;
  return x.unsqueeze(3).expand({-1, -1, -1, group, -1}).flatten(2, 3);
}

// The gradient by ForEachHead's argument: sums over the query heads that share
// keys or values.
at::Tensor FromEachHead(const at::Tensor& x, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads;
  return group == 1 ? x : x.unflatten(2, {shape.kv_heads, group}).sum(3);
}

AttentionInputs BackwardOnCpu(const at::Tensor& dout, const AttentionPlan& plan,
                              const HeadShape& shape, const Options& options,
                              const AttentionTape& tape) {
  if (!OnlyBackwardByBlocks(plan, options)) {
    return FlashBackwardOnCpu(dout, plan, tape);
  }
  // With a single row a transposed view serves as the batch of heads: no copy.
  const auto by_head = [&](const at::Tensor& x) {
    return plan.rows == 1 ? ByHead(x).unsqueeze(3) : ForBlocks(x, shape.heads);
  };
  AttentionTape each;
  each.q = by_head(tape.q);
  each.k = by_head(ForEachHead(tape.k, shape));
  each.v = by_head(ForEachHead(tape.v, shape));
  const BlockedGradients grad =
      BlockedBackward(by_head(plan.ByRow(dout, shape.dim)), plan,
                      EachWithKeys(shape), options, each);
  return {FromBlocks(grad.q), FromEachHead(FromBlocks(grad.k), shape),
          FromEachHead(FromBlocks(grad.v), shape)};
}

}  // namespace

at::Tensor AttentionPlan::ByRow(const at::Tensor& tokens, int64_t dim) const {
  base::CheckEqual(tokens.size(0), rows * length, "tokens and the plan's");
  return by_position ? tokens.view({length, rows, -1, dim}).transpose(0, 1)
                     : tokens.view({rows, length, -1, dim});
}

at::Tensor AttentionPlan::Tokens(const at::Tensor& by_row) const {
  const at::Tensor x = by_position ? by_row.transpose(0, 1) : by_row;
  return x.reshape({rows * length, -1});
}

at::Tensor AttentionPlan::Join(const at::Tensor& q, const at::Tensor& k) const {
  if (!by_position) return at::cat({q, k}, 2);
  return at::cat({q.transpose(0, 1), k.transpose(0, 1)}, 2).transpose(0, 1);
}

AttentionPlan PlanAttention(const TokenLayout& layout, int64_t window,
                            bool by_position, const HeadShape& shape,
                            const Options& options, BandMasks* bands) {
  base::CheckLess(0, layout.length, "tokens of a row");
  AttentionPlan plan;
  plan.rows = layout.rows;
  plan.length = layout.length;
  plan.by_position = by_position;
  plan.window = window < plan.length ? window : 0;
  plan.segments = layout.segment_lengths;
  if (!plan.segments.empty()) {
    plan.longest_segment =
        *std::max_element(plan.segments.begin(), plan.segments.end());
  }
  const bool only_backward = OnlyBackwardByBlocks(plan, options);
  if (only_backward || ByBlocks(plan, shape, options)) {
    PlanBlocks(layout, only_backward ? EachWithKeys(shape) : shape, options,
               bands, plan);
  } else if (ByToken(options) && !plan.segments.empty()) {
    std::vector<int32_t> starts = {0};
    for (const int64_t size : plan.segments) {
      starts.push_back(starts.back() + static_cast<int32_t>(size));
    }
    plan.segment_starts = at::tensor(starts, at::kInt).to(layout.device);
  }
  return plan;
}

AttentionKernels KernelsOf(const AttentionPlan& plan, const HeadShape& shape,
                           const Options& options) {
  if (ByBlocks(plan, shape, options)) return {"blocked", "blocked"};
  if (ByToken(options)) {
    return ByCudnn(plan, shape, options) ? AttentionKernels{"cudnn", "cudnn"}
                                         : AttentionKernels{"flash", "flash"};
  }
  return {"flash", OnlyBackwardByBlocks(plan, options) ? "blocked" : "flash"};
}

at::Tensor AttentionForward(const AttentionInputs& inputs,
                            const AttentionPlan& plan, const HeadShape& shape,
                            const Options& options, AttentionTape& tape) {
  tape.lse.clear();
  at::Tensor out;
  if (ByBlocks(plan, shape, options)) {
    tape.q = ForBlocks(inputs.q, shape.kv_heads);
    tape.k = ForBlocks(inputs.k, shape.kv_heads);
    tape.v = ForBlocks(inputs.v, shape.kv_heads);
    out = FromBlocks(BlockedForward(plan, shape, tape));
  } else {
    tape.q = inputs.q;
    tape.k = inputs.k;
    tape.v = inputs.v;
    if (ByToken(options)) {
      out = ByCudnn(plan, shape, options) ? ForwardOnCudnn(tape)
                                          : ForwardOnCuda(plan, tape);
    } else {
      out = ForwardOnCpu(plan, tape);
    }
  }
  return tape.out = plan.Tokens(out);
}

AttentionInputs AttentionBackward(const at::Tensor& dout,
                                  const AttentionPlan& plan,
                                  const HeadShape& shape,
                                  const Options& options,
                                  const AttentionTape& tape) {
  if (!ByBlocks(plan, shape, options)) {
    if (ByCudnn(plan, shape, options)) {
      return BackwardOnCudnn(dout, plan, tape);
    }
    return ByToken(options) ? BackwardOnCuda(dout, plan, shape, tape)
                            : BackwardOnCpu(dout, plan, shape, options, tape);
  }
  const BlockedGradients grad =
      BlockedBackward(ForBlocks(plan.ByRow(dout, shape.dim), shape.kv_heads),
                      plan, shape, options, tape);
  return {FromBlocks(grad.q), FromBlocks(grad.k), FromBlocks(grad.v)};
}

}  // namespace mpsd::attention
