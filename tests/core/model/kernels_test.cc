// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "core/model/attention.h"
#include "core/model/block_plan.h"
#include "core/model/blocked_attention.h"
#include "core/model/cudnn.h"
#include "core/model/flash_cpu.h"
#include "core/model/flash_cuda.h"
#include "core/model/head_layout.h"
#include "tests/core/model/layouts.h"
#include "tests/core/model/reference.h"

// The tiled attention against ATen's own, values and gradients, over lengths
// around the tile's edges.
// The kernel itself needs CUDA. Here the CPU has one of the same name that does
// what its arguments say, so that a wrong argument is a wrong result.
// The kernel itself needs CUDA. Here the CPU has one of the same name that does
// what its arguments say, so that a wrong argument is a wrong result.

namespace mpsd::attention {

namespace {

constexpr HeadShape kMany{128, 64, 2};

TEST(BlockedAttentionTest, ManyScoresAreSeveralBlocks) {
  at::manual_seed(4);
  const int64_t length = 512;
  const AttentionPlan plan =
      PlanAttention(Rows(1, length), 0, false, kMany, OptionsOf(Choice::kMps));
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[0].keys, 256);
  EXPECT_EQ(plan.blocks[1].keys, length);

  const auto random = [&](int64_t heads) {
    return at::randn({1, heads, length, 2}).requires_grad_(true);
  };
  const at::Tensor q = random(128), k = random(64), v = random(64);
  const at::Tensor expected =
      CausalAttention(q, k, v, {}, AttentionKernel::kFused);
  const at::Tensor dout = at::randn(expected.sizes());
  expected.backward(dout);
  AttentionTape tape;
  tape.q = q.detach().view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  tape.k = k.detach();
  tape.v = v.detach();
  const auto grouped = [&](const at::Tensor& x) {
    return x.view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  };
  EXPECT_LE(RelativeError(BlockedForward(plan, kMany, tape),
                          grouped(expected.detach())),
            2e-6);
  const BlockedGradients grad = BlockedBackward(grouped(dout), plan, kMany,
                                                OptionsOf(Choice::kMps), tape);
  EXPECT_LE(RelativeError(grad.q, grouped(q.grad())), 2e-6);
  EXPECT_LE(RelativeError(grad.k, k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v, v.grad()), 2e-6);
}

// Both ways give the model's attention.
TEST(BlockedAttentionTest, SegmentsMasksMadeAnewAreThoseThatWereKept) {
  at::manual_seed(5);
  const HeadShape shape{4, 2, 8};
  AttentionPlan plan = PlanAttention(PackedRows(2, 96), 20, false, shape,
                                     OptionsOf(Choice::kMps));
  ASSERT_TRUE(plan.blocks[0].mask.defined());
  AttentionTape tape;
  tape.q = at::randn({2, 2, 96, 2, 8});
  tape.k = at::randn({2, 2, 96, 1, 8});
  tape.v = at::randn({2, 2, 96, 1, 8});
  const at::Tensor kept = BlockedForward(plan, shape, tape);
  for (QueryBlock& b : plan.blocks) b.mask.reset();
  EXPECT_TRUE(at::equal(BlockedForward(plan, shape, tape), kept));
}

// All keys' dp are nearly the same, and the keys too: what bf16 loses of their
// sum comes on every query's gradient. By the calls of MPS, which take what the
// values have in common out of them, less is lost than by the CPU's, which sum
// in fp32.
TEST(BlockedAttentionTest, CentredValuesSurviveBf16) {
  at::manual_seed(6);
  const int64_t length = 512, dim = 16;
  const HeadShape shape{2, 2, dim};
  const auto random = [&](double mean) {
    return (at::randn({1, 2, length, 1, dim}) + mean).to(at::kBFloat16);
  };
  AttentionTape tape;
  tape.q = random(0).mul(0.1);
  tape.k = random(4);
  tape.v = random(8);
  const at::Tensor dout = random(1);
  const auto dq = [&](Choice choice, at::ScalarType dtype) {
    const Options options = OptionsOf(choice, dtype);
    AttentionPlan plan;
    plan.rows = 1;
    plan.length = length;
    PlanBlocks(Rows(1, length), shape, options, nullptr, plan);
    AttentionTape cast;
    cast.q = tape.q.to(dtype);
    cast.k = tape.k.to(dtype);
    cast.v = tape.v.to(dtype);
    return BlockedBackward(dout.to(dtype), plan, shape, options, cast)
        .q.to(at::kFloat);
  };
  const at::Tensor exact = dq(Choice::kCpu, at::kFloat);
  EXPECT_LE(RelativeError(dq(Choice::kMps, at::kBFloat16), exact),
            0.5 * RelativeError(dq(Choice::kCpu, at::kBFloat16), exact));
}

struct Case {
  int64_t heads, kv_heads, length, window;
  bool segments;
};

constexpr int64_t kTile = 4;

TEST(TiledAttentionTest, ValuesAndGradientsEqualTheFusedOnes) {
  for (const Case& c : std::vector<Case>{{2, 2, 1, 0, false},
                                         {2, 2, 4, 0, false},
                                         {2, 1, 5, 0, false},
                                         {6, 2, 13, 0, false},
                                         {4, 2, 16, 0, true},
                                         {2, 2, 17, 3, false},
                                         {2, 1, 19, 4, false},
                                         {2, 1, 19, 5, true},
                                         {2, 2, 9, 1, false},
                                         {2, 2, 9, 100, false}}) {
    SCOPED_TRACE(c.length);
    at::manual_seed(2);
    AttentionMask mask;
    mask.window = c.window;
    if (c.segments) {
      mask.segments = at::arange(c.length)
                          .div(5, "floor")
                          .to(at::kLong)
                          .unsqueeze(0)
                          .repeat({2, 1});
    }
    const at::Tensor weight = at::randn({2, c.heads, c.length, 8});
    auto run = [&](bool tiled) {
      at::manual_seed(3);
      std::vector<at::Tensor> inputs = {
          at::randn({2, c.heads, c.length, 8}).requires_grad_(),
          at::randn({2, c.kv_heads, c.length, 8}).requires_grad_(),
          at::randn({2, c.kv_heads, c.length, 8}).requires_grad_()};
      const at::Tensor out =
          tiled ? TiledAttention(inputs[0], inputs[1], inputs[2], mask, kTile)
                : CausalAttention(inputs[0], inputs[1], inputs[2], mask,
                                  AttentionKernel::kFused);
      (out * weight).sum().backward();
      return std::vector<at::Tensor>{out.detach(), inputs[0].grad(),
                                     inputs[1].grad(), inputs[2].grad()};
    };
    const auto tiled = run(true), fused = run(false);
    for (size_t i = 0; i < tiled.size(); ++i) {
      // A window of one token has a gradient of zero: hence the 1e-5.
      EXPECT_LE((tiled[i] - fused[i]).norm().item<double>(),
                1e-5 * fused[i].norm().item<double>() + 1e-5)
          << "tensor " << i << " of out, dq, dk, dv";
    }
  }
}

TEST(BidirectionalTilesTest, ValuesAndGradientsEqualTheFusedOnes) {
  for (const int64_t length : {1, 3, 4, 5, 8, 13}) {
    SCOPED_TRACE(length);
    at::manual_seed(2);
    const at::Tensor weight = at::randn({2, 2, length, 8});
    const at::Tensor keys = PaddingMask(
        at::tensor({length, int64_t{1}}, at::kLong), length, at::kFloat);
    auto run = [&](bool tiled) {
      at::manual_seed(3);
      std::vector<at::Tensor> in;
      for (int i = 0; i < 3; ++i) {
        in.push_back(at::randn({2, 2, length, 8}).requires_grad_());
      }
      AttentionMask mask;
      mask.causal = false;
      mask.keys = keys;
      const at::Tensor out =
          tiled ? TiledAttention(in[0], in[1], in[2], mask, kTile)
                : BidirectionalAttention(in[0], in[1], in[2], keys, 0,
                                         AttentionKernel::kFused);
      (out * weight).sum().backward();
      return std::vector<at::Tensor>{out.detach(), in[0].grad(), in[1].grad(),
                                     in[2].grad()};
    };
    const auto tiled = run(true), fused = run(false);
    for (size_t i = 0; i < tiled.size(); ++i) {
      EXPECT_LE((tiled[i] - fused[i]).norm().item<double>(),
                1e-5 * fused[i].norm().item<double>() + 1e-5)
          << "tensor " << i << " of out, dq, dk, dv";
    }
  }
}

TEST(TiledAttentionDtypeTest, Bf16StaysNearFp32) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({1, 2, 33, 8});
  const at::Tensor wide = TiledAttention(x, x, x, {}, 8);
  const at::Tensor narrow = TiledAttention(
      x.to(at::kBFloat16), x.to(at::kBFloat16), x.to(at::kBFloat16), {}, 8);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_LE((narrow.to(at::kFloat) - wide).norm().item<double>(),
            2e-2 * wide.norm().item<double>());
}

AttentionPlan PlanOf(const TokenLayout& layout) {
  AttentionPlan plan;
  plan.forward = plan.backward = PlannedKernel::kFlashCpu;
  plan.rows = layout.rows;
  plan.length = layout.length;
  plan.segments = layout.segment_lengths;
  return plan;
}

void ExpectReferenceOf(const AttentionPlan& plan) {
  ExpectReference(
      plan, [&](AttentionTape& tape) { return FlashCpuForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return FlashCpuBackward(dout, plan, tape);
      });
}

TEST(FlashCpuTest, RowsAndSegmentsAttendWithinThemselves) {
  at::manual_seed(1);
  ExpectReferenceOf(PlanOf(Rows(3, 20)));
  at::manual_seed(2);
  ExpectReferenceOf(PlanOf(PackedRows(2, 24)));
}

TEST(FlashCpuTest, KeepsOneSumASegment) {
  const AttentionPlan plan = PlanOf(PackedRows(2, 24));
  const AttentionInputs x = RandomInputs(plan);
  AttentionTape tape;
  tape.q = x.q;
  tape.k = x.k;
  tape.v = x.v;
  FlashCpuForward(plan, tape);
  EXPECT_EQ(tape.lse.size(), plan.segments.size());
}

TEST(FlashCpuDeathTest, HasNoWindow) {
  AttentionPlan plan = PlanOf(Rows(1, 8));
  plan.window = 4;
  AttentionTape tape;
  EXPECT_DEATH(FlashCpuForward(plan, tape), "the window of a flash");
}

using torch::jit::Stack;

// The arguments of a call, by their names in the operator's schema.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, const Stack& stack)
      : schema_(op.schema()),
        values_(torch::jit::last(stack, schema_.arguments().size())) {}
  const c10::IValue& operator[](const char* name) const {
    return values_[*schema_.argumentIndexWithName(name)];
  }

 private:
  const c10::FunctionSchema& schema_;
  const c10::ArrayRef<c10::IValue> values_;
};

Reference ReferenceOf(const Arguments& a) {
  AttentionInputs x{.q = a["query"].toTensor(),
                    .k = a["key"].toTensor(),
                    .v = a["value"].toTensor()};
  at::Tensor segments;
  if (x.q.dim() == 4) {  // [rows, length, heads, dim]
    EXPECT_EQ(a["max_q"].toInt(), x.q.size(1));
    segments = at::arange(x.q.size(0)).repeat_interleave(x.q.size(1));
    x = {
        .q = x.q.flatten(0, 1), .k = x.k.flatten(0, 1), .v = x.v.flatten(0, 1)};
  } else {  // [tokens, heads, dim]
    const at::Tensor sizes = a["cum_seq_k"].toTensor().diff().to(at::kLong);
    EXPECT_EQ(a["max_q"].toInt(), sizes.max().item<int64_t>());
    segments = at::arange(sizes.numel()).repeat_interleave(sizes);
  }
  EXPECT_EQ(a["max_k"].toInt(), a["max_q"].toInt());
  EXPECT_EQ(a["dropout_p"].toDouble(), 0);
  EXPECT_TRUE(a["is_causal"].toBool());
  int64_t before = x.q.size(0);
  if (!a["window_size_left"].isNone()) {
    before = a["window_size_left"].toInt();
    EXPECT_EQ(a["window_size_right"].toInt(), 0);
  }
  return Reference(x, segments, before);
}

void Return(const c10::OperatorHandle& op, Stack& stack,
            std::vector<c10::IValue> results) {
  torch::jit::drop(stack, op.schema().arguments().size());
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

void FakeForward(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments a(op, *stack);
  const at::Tensor q = a["query"].toTensor();
  const at::Tensor out = ReferenceOf(a).out().view(q.sizes());
  const auto marked = [](double value) { return at::full({1}, value); };
  Return(op, *stack, {out, marked(1), marked(2), marked(3), marked(4)});
}

void FakeBackward(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments a(op, *stack);
  EXPECT_EQ(a["logsumexp"].toTensor().item<double>(), 1);
  EXPECT_EQ(a["rng_state"].toTensor().item<double>(), 2);
  EXPECT_EQ(a["unused"].toTensor().item<double>(), 3);
  const Reference reference = ReferenceOf(a);
  const auto like = [](const at::Tensor& x, const c10::IValue& y) {
    return x.view(y.toTensor().sizes());
  };
  EXPECT_LE(RelativeError(like(a["out"].toTensor(), a["query"]),
                          like(reference.out(), a["query"])),
            2e-6);
  const AttentionInputs grad = reference.Backward(
      a["grad_out"].toTensor().reshape(reference.out().sizes()));
  Return(op, *stack,
         {like(grad.q, a["query"]), like(grad.k, a["key"]),
          like(grad.v, a["value"])});
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_flash_attention_forward",
         torch::CppFunction::makeFromBoxedFunction<&FakeForward>());
  m.impl("_flash_attention_backward",
         torch::CppFunction::makeFromBoxedFunction<&FakeBackward>());
}

// The plan that PlanAttention makes for CUDA, on the CPU.
AttentionPlan FlashCudaPlanOf(const TokenLayout& layout, int64_t window) {
  const Options options = OptionsOf(Choice::kCuda, at::kBFloat16);
  const AttentionPlan plan =
      PlanAttention(layout, window, false, {4, 2, 8}, options);
  EXPECT_EQ(plan.forward, PlannedKernel::kFlashCuda);
  return plan;
}

void ExpectReferenceOfFlashCuda(const AttentionPlan& plan) {
  ExpectReference(
      plan, [&](AttentionTape& tape) { return FlashCudaForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return FlashCudaBackward(dout, plan, tape);
      });
}

TEST(FlashCudaTest, RowsAndSegmentsAttendWithinThemselvesAndTheirWindows) {
  at::manual_seed(1);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(3, 20), 0));
  at::manual_seed(2);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(2, 20), 5));
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(2, 20), 1));
  at::manual_seed(3);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(PackedRows(2, 24), 0));
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(PackedRows(2, 24), 5));
}

TEST(FlashCudaDeathTest, PackedRowsHaveTheStartsOfTheirSegments) {
  AttentionPlan plan = FlashCudaPlanOf(PackedRows(1, 12), 0);
  plan.segment_starts.reset();
  AttentionTape tape;
  EXPECT_DEATH(FlashCudaForward(plan, tape), "starts of their segments");
}

using Forwarded =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
               c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The kernel takes [rows, heads, length, dim].
Reference CudnnReferenceOf(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v) {
  const auto flat = [](const at::Tensor& x) {
    return SwapTokensAndHeads(x).flatten(0, 1);
  };
  return Reference({.q = flat(q), .k = flat(k), .v = flat(v)},
                   at::arange(q.size(0)).repeat_interleave(q.size(2)),
                   q.size(2));
}

at::Tensor Like(const at::Tensor& x, const at::Tensor& by_head) {
  return SwapTokensAndHeads(x.view(SwapTokensAndHeads(by_head).sizes()));
}

Forwarded CudnnFakeForward(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v,
                           const std::optional<at::Tensor>& bias, bool sums,
                           double dropout, bool causal, bool,
                           std::optional<double> scale) {
  EXPECT_FALSE(bias.has_value());
  EXPECT_TRUE(sums && causal);
  EXPECT_EQ(dropout, 0);
  EXPECT_FALSE(scale.has_value());
  const auto marked = [](double value) { return at::full({1}, value); };
  return {Like(CudnnReferenceOf(q, k, v).out(), q),
          marked(1),
          at::Tensor(),
          at::Tensor(),
          q.sym_size(2),
          k.sym_size(2),
          marked(2),
          marked(3),
          at::Tensor()};
}

Gradients CudnnFakeBackward(const at::Tensor& dout, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& out, const at::Tensor& lse,
                            const at::Tensor& seed, const at::Tensor& offset,
                            const at::Tensor& bias, const at::Tensor&,
                            const at::Tensor&, c10::SymInt longest_q,
                            c10::SymInt longest_k, double dropout, bool causal,
                            std::optional<double>) {
  EXPECT_EQ(lse.item<double>(), 1);
  EXPECT_EQ(seed.item<double>(), 2);
  EXPECT_EQ(offset.item<double>(), 3);
  EXPECT_FALSE(bias.defined());
  EXPECT_EQ(longest_q, q.size(2));
  EXPECT_EQ(longest_k, k.size(2));
  EXPECT_EQ(dropout, 0);
  EXPECT_TRUE(causal);
  const Reference reference = CudnnReferenceOf(q, k, v);
  EXPECT_LE(RelativeError(out, Like(reference.out(), q)), 2e-6);
  const AttentionInputs grad = reference.Backward(
      SwapTokensAndHeads(dout).reshape(reference.out().sizes()));
  return {Like(grad.q, q), Like(grad.k, k), Like(grad.v, v)};
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_scaled_dot_product_cudnn_attention", &CudnnFakeForward);
  m.impl("_scaled_dot_product_cudnn_attention_backward", &CudnnFakeBackward);
}

TEST(CudnnTest, RowsAttendWithinThemselves) {
  at::manual_seed(1);
  AttentionPlan plan;
  plan.rows = 3;
  plan.length = 20;
  ExpectReference(
      plan, [](AttentionTape& tape) { return CudnnForward(tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return CudnnBackward(dout, plan, tape);
      });
}

}  // namespace

}  // namespace mpsd::attention
