// SPDX-License-Identifier: Apache-2.0
// The kernel itself needs CUDA. Here the CPU has one of the same name that does
// what its arguments say, so that a wrong argument is a wrong result.
#include "core/attention/flash_cuda.h"

#include <torch/library.h>

#include "tests/core/attention/reference.h"

namespace mpsd::attention {
namespace {

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
AttentionPlan PlanOf(const TokenLayout& layout, int64_t window) {
  Options options;
  options.traits = backend::TraitsOf(Choice::kCuda);
  options.dtype = at::kBFloat16;
  const AttentionPlan plan =
      PlanAttention(layout, window, false, {4, 2, 8}, options);
  EXPECT_EQ(plan.forward, PlannedKernel::kFlashCuda);
  return plan;
}

void ExpectReferenceOf(const AttentionPlan& plan) {
  ExpectReference(
      plan, [&](AttentionTape& tape) { return FlashCudaForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return FlashCudaBackward(dout, plan, tape);
      });
}

TEST(FlashCudaTest, RowsAttendWithinThemselves) {
  at::manual_seed(1);
  ExpectReferenceOf(PlanOf(Rows(3, 20), 0));
}

TEST(FlashCudaTest, AWindowCountsTheQuerysOwnKey) {
  at::manual_seed(2);
  ExpectReferenceOf(PlanOf(Rows(2, 20), 5));
  ExpectReferenceOf(PlanOf(Rows(2, 20), 1));
}

TEST(FlashCudaTest, SegmentsOfPackedRowsAttendWithinThemselves) {
  at::manual_seed(3);
  ExpectReferenceOf(PlanOf(PackedRows(2, 24), 0));
  ExpectReferenceOf(PlanOf(PackedRows(2, 24), 5));
}

TEST(FlashCudaDeathTest, PackedRowsHaveTheStartsOfTheirSegments) {
  AttentionPlan plan = PlanOf(PackedRows(1, 12), 0);
  plan.segment_starts.reset();
  AttentionTape tape;
  EXPECT_DEATH(FlashCudaForward(plan, tape), "starts of their segments");
}

}  // namespace
}  // namespace mpsd::attention
