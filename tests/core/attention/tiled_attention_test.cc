// SPDX-License-Identifier: Apache-2.0
// The tiled attention against ATen's own, values and gradients, over lengths
// around the tile's edges.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/attention/attention.h"

namespace mpsd::attention {
namespace {

struct Case {
  int64_t heads, kv_heads, length, window;
  bool segments;
};

class TiledAttentionTest : public testing::TestWithParam<Case> {};

constexpr int64_t kTile = 4;

TEST_P(TiledAttentionTest, ValuesAndGradientsEqualTheFusedOnes) {
  const Case& c = GetParam();
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

INSTANTIATE_TEST_SUITE_P(
    All, TiledAttentionTest,
    testing::Values(Case{2, 2, 1, 0, false}, Case{2, 2, 4, 0, false},
                    Case{2, 1, 5, 0, false}, Case{6, 2, 13, 0, false},
                    Case{4, 2, 16, 0, true}, Case{2, 2, 17, 3, false},
                    Case{2, 1, 19, 4, false}, Case{2, 1, 19, 5, true},
                    Case{2, 2, 9, 1, false}, Case{2, 2, 9, 100, false}));

class BidirectionalTilesTest : public testing::TestWithParam<int64_t> {};

TEST_P(BidirectionalTilesTest, ValuesAndGradientsEqualTheFusedOnes) {
  const int64_t length = GetParam();
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

INSTANTIATE_TEST_SUITE_P(Lengths, BidirectionalTilesTest,
                         testing::Values(1, 3, 4, 5, 8, 13));

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

}  // namespace
}  // namespace mpsd::attention
