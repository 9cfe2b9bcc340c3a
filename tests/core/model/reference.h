// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_MODEL_REFERENCE_H_
#define MPSD_TESTS_CORE_MODEL_REFERENCE_H_

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "core/model/attention_plan.h"
#include "core/model/attention_tape.h"
#include "gtest/gtest.h"
#include "tests/core/model/layouts.h"

namespace mpsd::attention {

// Causal attention of one row of tokens, written out without autograd: q
// [tokens, heads, dim], k and v [tokens, kv_heads, dim], `segments` int64
// [tokens]. A token sees `before` tokens before itself at most.
class Reference {
 public:
  Reference(const AttentionInputs& x, const at::Tensor& segments,
            int64_t before)
      : x_(x),
        group_(x.q.size(1) / x.k.size(1)),
        scale_(1 / std::sqrt(static_cast<double>(x.q.size(2)))) {
    const at::Tensor index = at::arange(x.q.size(0));
    const at::Tensor distance = index.unsqueeze(1) - index.unsqueeze(0);
    const at::Tensor hidden =
        (distance < 0)
            .logical_or(distance > before)
            .logical_or(segments.unsqueeze(1) != segments.unsqueeze(0));
    p_ = at::softmax(
        (Heads(x.q).matmul(Keys(x.k).transpose(1, 2)) * scale_)
            .masked_fill(hidden, -std::numeric_limits<double>::infinity()),
        -1);
    out_ = p_.matmul(Keys(x.v)).transpose(0, 1).contiguous();
  }

  const at::Tensor& out() const { return out_; }  // [tokens, heads, dim]

  AttentionInputs Backward(const at::Tensor& dout) const {
    const at::Tensor d = Heads(dout);
    const at::Tensor delta = (d * Heads(out_)).sum(-1, true);
    const at::Tensor ds =
        p_ * (d.matmul(Keys(x_.v).transpose(1, 2)) - delta) * scale_;
    return {.q = ds.matmul(Keys(x_.k)).transpose(0, 1).contiguous(),
            .k = OfKeys(ds.transpose(1, 2).matmul(Heads(x_.q))),
            .v = OfKeys(p_.transpose(1, 2).matmul(d))};
  }

 private:
  static at::Tensor Heads(const at::Tensor& x) { return x.transpose(0, 1); }
  at::Tensor Keys(const at::Tensor& x) const {
    return Heads(x).repeat_interleave(group_, 0);
  }
  at::Tensor OfKeys(const at::Tensor& grad) const {
    return grad.unflatten(0, {-1, group_}).sum(1).transpose(0, 1).contiguous();
  }

  const AttentionInputs x_;
  const int64_t group_;
  const double scale_;
  at::Tensor p_, out_;
};

// The number of each token's segment, [tokens]; without segments each row is
// one.
inline at::Tensor SegmentsOf(const AttentionPlan& plan) {
  std::vector<int64_t> sizes = plan.segments;
  if (sizes.empty()) sizes.assign(plan.rows, plan.length);
  std::vector<at::Tensor> ids;
  for (size_t i = 0; i < sizes.size(); ++i) {
    ids.push_back(at::full({sizes[i]}, static_cast<int64_t>(i)));
  }
  return at::cat(ids);
}

// 4 heads that share 2 kv heads, of 8 numbers.
inline AttentionInputs RandomInputs(const AttentionPlan& plan) {
  const auto random = [&](int64_t heads) {
    return at::randn({plan.rows, plan.length, heads, 8});
  };
  return {.q = random(4), .k = random(2), .v = random(2)};
}

// Runs `forward` (tape → o) and `backward` (dout, tape → gradients) on random
// numbers and compares them with Reference.
template <typename Forward, typename Backward>
void ExpectReference(const AttentionPlan& plan, const Forward& forward,
                     const Backward& backward) {
  const AttentionInputs x = RandomInputs(plan);
  AttentionTape tape;
  tape.q = x.q;
  tape.k = x.k;
  tape.v = x.v;
  tape.out = plan.Tokens(forward(tape));
  const auto flat = [](const at::Tensor& t) { return t.flatten(0, 1); };
  const Reference reference({.q = flat(x.q), .k = flat(x.k), .v = flat(x.v)},
                            SegmentsOf(plan),
                            plan.window > 0 ? plan.window - 1 : plan.length);
  EXPECT_LE(RelativeError(tape.out, reference.out().flatten(1)), 2e-6);
  const at::Tensor dout = at::randn(tape.out.sizes());
  const AttentionInputs grad = backward(dout, tape);
  const AttentionInputs expected =
      reference.Backward(dout.view(reference.out().sizes()));
  EXPECT_LE(RelativeError(flat(grad.q), expected.q), 2e-6);
  EXPECT_LE(RelativeError(flat(grad.k), expected.k), 2e-6);
  EXPECT_LE(RelativeError(flat(grad.v), expected.v), 2e-6);
}

}  // namespace mpsd::attention

#endif  // MPSD_TESTS_CORE_MODEL_REFERENCE_H_
