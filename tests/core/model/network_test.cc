// SPDX-License-Identifier: Apache-2.0
#include "core/model/network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/base/work_count.h"

namespace mpsd::model {
namespace {

// Five blocks y = sin(w x).
class Blocks : public Network {
 public:
  explicit Blocks(bool recomputed) : Network({}, at::kFloat) {
    RunOptions options;
    if (recomputed) options.recompute = spec::Recompute::kFull;
    set_options(options);
    set_commit([this] { ++commits; });
  }
  std::vector<Linear*> Linears() override { return {}; }
  std::vector<NamedWeight> NamedWeights() override { return {}; }

  at::Tensor Forward(at::Tensor x) const {
    for (size_t i = 0; i < 5; ++i) {
      x = RunBlock(
          i, [this](const at::Tensor& in) { return at::sin(in * w); }, x,
          /*draws=*/false);
    }
    return x;
  }

  const at::Tensor w = at::full({3}, 1.5).requires_grad_(true);
  int commits = 0;
};

class BlocksTest : public testing::TestWithParam<bool> {
 protected:
  const at::Tensor x_ = at::tensor({0.1, 0.2, 0.3}, at::kFloat);
};

TEST_P(BlocksTest, AreHandedOverEveryFewThereAndBack) {
  Blocks blocks(GetParam());
  const at::Tensor y = blocks.Forward(x_);
  EXPECT_EQ(blocks.commits, 2);
  y.sum().backward();
  EXPECT_EQ(blocks.commits, 4);
}

TEST_P(BlocksTest, CountAsWorkThereAndBack) {
  const Blocks blocks(GetParam());
  const int64_t before = base::WorkCount();
  const at::Tensor y = blocks.Forward(x_);
  const int64_t there = base::WorkCount() - before;
  EXPECT_EQ(there, 5);
  y.sum().backward();
  EXPECT_EQ(base::WorkCount() - before - there, GetParam() ? 10 : 5);
}

TEST_P(BlocksTest, GradientsAreThoseOfTheBlocksAlone) {
  const Blocks blocks(GetParam());
  blocks.Forward(x_).sum().backward();
  const at::Tensor w = at::full({3}, 1.5).requires_grad_(true);
  at::Tensor x = x_;
  for (int i = 0; i < 5; ++i) x = at::sin(x * w);
  x.sum().backward();
  EXPECT_TRUE(at::allclose(blocks.w.grad(), w.grad()));
}

TEST_P(BlocksTest, WithoutGradientsNothingIsKept) {
  Blocks blocks(GetParam());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(blocks.Forward(x_).requires_grad());
  EXPECT_EQ(blocks.commits, 2);
}

INSTANTIATE_TEST_SUITE_P(Network, BlocksTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "recomputed" : "kept";
                         });

}  // namespace
}  // namespace mpsd::model
