// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/fake_mps.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

class FakeMpsTest : public testing::Test {
 protected:
  FakeMpsTest() { InstallFakeMps(); }
  static at::Tensor OnMps(const at::Tensor& t) { return t.to(at::kMPS); }
  static void ExpectEqual(const at::Tensor& on_mps, const at::Tensor& host) {
    ASSERT_TRUE(on_mps.is_mps());
    EXPECT_TRUE(at::equal(on_mps.cpu(), host)) << on_mps.cpu() << host;
  }
};

TEST_F(FakeMpsTest, ComputesWhatTheCpuDoes) {
  const at::Tensor a = at::rand({3, 4}), b = at::rand({4, 5});
  ExpectEqual(at::matmul(OnMps(a), OnMps(b)), at::matmul(a, b));
  ExpectEqual(at::softmax(OnMps(a) * 2 + 1, -1), at::softmax(a * 2 + 1, -1));
  ExpectEqual(at::cat({OnMps(a), OnMps(a)}), at::cat({a, a}));
  ExpectEqual(at::arange(5, at::device(at::kMPS)), at::arange(5));
}

// As MPS has it: of numbers that are nearly the same nothing is left.
TEST_F(FakeMpsTest, SoftmaxBackwardRoundsItsSums) {
  const auto error = [](double common) {
    at::manual_seed(7);
    const at::Tensor p = at::softmax(at::randn({8, 64}), -1).to(at::kBFloat16);
    const at::Tensor dp = (at::randn({8, 64}) + common).to(at::kBFloat16);
    const at::Tensor exact = at::_softmax_backward_data(
        dp.to(at::kFloat), p.to(at::kFloat), -1, at::kFloat);
    const at::Tensor ours =
        at::_softmax_backward_data(OnMps(dp), OnMps(p), -1, at::kBFloat16)
            .cpu()
            .to(at::kFloat);
    return ((ours - exact).norm() / exact.norm()).item<double>();
  };
  EXPECT_LE(error(0), 0.01);
  EXPECT_GE(error(100), 0.1);
}

TEST_F(FakeMpsTest, ViewsShareMemory) {
  const at::Tensor a = at::zeros({4, 4}, at::device(at::kMPS));
  a.narrow(0, 1, 2).t().select(0, 3).add_(7);
  at::Tensor expected = at::zeros({4, 4});
  expected.narrow(0, 1, 2).select(1, 3).fill_(7);
  ExpectEqual(a, expected);
}

TEST_F(FakeMpsTest, GradientsAreTheCpus) {
  const auto gradient = [](at::Device device) {
    at::Tensor w = at::linspace(-1, 1, 12).view({3, 4}).to(device);
    const at::Tensor x = at::linspace(0, 2, 8).view({2, 4}).to(device);
    const at::Tensor bias = at::ones({3}).to(device);
    w = w.detach().requires_grad_(true);
    at::silu(at::linear(x, w, bias)).sum().backward();
    return w.grad().cpu();
  };
  EXPECT_TRUE(at::allclose(gradient(at::kMPS), gradient(at::kCPU)));
}

// The dispatch table is MPS's, not the CPU's.
TEST_F(FakeMpsTest, DispatchesAsOnAMac) {
  Recorder recorder;
  const at::Tensor w =
      at::rand({3, 4}, at::device(at::kMPS)).requires_grad_(true);
  at::linear(at::rand({2, 4}, at::device(at::kMPS)), w).sum().backward();
  at::dropout(w, 0.5, /*train=*/true);
  EXPECT_THAT(recorder.operators(), Contains("aten::linear"));
  EXPECT_THAT(recorder.operators(), Contains("aten::linear_backward"));
  EXPECT_THAT(recorder.operators(), Not(Contains("aten::mm")));
  EXPECT_THAT(recorder.operators(), Contains("aten::native_dropout"));
  EXPECT_THAT(recorder.missing(), IsEmpty());
}

TEST_F(FakeMpsTest, ReportsOperatorsThatMpsHasNot) {
  Recorder recorder;
  const at::Tensor x = at::eye(3, at::device(at::kMPS));
  const auto [values, vectors] = at::linalg_eig(x);
  EXPECT_THAT(recorder.missing(), Contains(Key("aten::linalg_eig")));
  // It ran nonetheless, so that one run finds all.
  EXPECT_EQ(values.sizes(), at::IntArrayRef({3}));
}

TEST_F(FakeMpsTest, CountsMemoryThatLives) {
  const int64_t before = LiveBytes();
  {
    const at::Tensor a = at::zeros({256}, at::device(at::kMPS));
    const at::Tensor view = a.narrow(0, 0, 8);
    EXPECT_EQ(LiveBytes() - before, 1024);
  }
  EXPECT_EQ(LiveBytes(), before);
}

TEST_F(FakeMpsTest, ShapesOnlyNeedsNoMemory) {
  SetExecution(Execution::kShapesOnly);
  {
    const at::Tensor a =
        at::empty({1 << 20, 1 << 12}, at::device(at::kMPS).dtype(at::kHalf));
    const at::Tensor w = at::empty({8, 1 << 12}, a.options());
    const at::Tensor y = at::linear(a, w).index_select(
        0, at::zeros({7}, at::device(at::kMPS).dtype(at::kLong)));
    EXPECT_EQ(y.sizes(), at::IntArrayRef({7, 8}));
    EXPECT_EQ(y.sum().to(at::kFloat).item<float>(), 0);
  }
  SetExecution(Execution::kCompute);
}

TEST_F(FakeMpsTest, ASpoiltKernelIsWrongUntilItIsMended) {
  const at::Tensor a = at::ones({2, 2}, at::device(at::kMPS));
  SpoilKernel("aten::mm", [](at::Tensor& result) { result.add_(1); });
  ExpectEqual(at::mm(a, a), at::full({2, 2}, 3.0));
  SpoilKernel("aten::mm", nullptr);
  ExpectEqual(at::mm(a, a), at::full({2, 2}, 2.0));
}

TEST_F(FakeMpsTest, RandomNumbersFollowTheSeed) {
  at::manual_seed(3);
  const at::Tensor a = at::rand({4}, at::device(at::kMPS));
  at::manual_seed(3);
  ExpectEqual(at::rand({4}, at::device(at::kMPS)), a.cpu());
}

}  // namespace
}  // namespace mpsd::ops
