// SPDX-License-Identifier: Apache-2.0
#include "core/attention/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mpsd::attention {
namespace {

// One query at a time, by the definition.
at::Tensor ByDefinition(const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const AttentionMask& mask) {
  at::Tensor out = at::zeros_like(q);
  const int64_t group = q.size(1) / k.size(1);
  for (int64_t r = 0; r < q.size(0); ++r) {
    for (int64_t h = 0; h < q.size(1); ++h) {
      for (int64_t i = 0; i < q.size(2); ++i) {
        at::Tensor scores =
            at::full({q.size(2)}, -std::numeric_limits<float>::infinity());
        for (int64_t j = 0; j <= i; ++j) {
          if (mask.window > 0 && i - j >= mask.window) continue;
          if (mask.segments.defined() &&
              mask.segments[r][i].item<int64_t>() !=
                  mask.segments[r][j].item<int64_t>()) {
            continue;
          }
          scores[j] =
              at::dot(q[r][h][i], k[r][h / group][j]) / std::sqrt(q.size(3));
        }
        out[r][h][i] = at::matmul(scores.softmax(0), v[r][h / group]);
      }
    }
  }
  return out;
}

struct Case {
  const char* name;
  int64_t heads, kv_heads, length, window;
  bool segments;
};

class AttentionTest
    : public testing::TestWithParam<std::tuple<Case, AttentionKernel>> {};

TEST_P(AttentionTest, EqualsTheDefinition) {
  const auto& [c, kernel] = GetParam();
  at::manual_seed(1);
  const at::Tensor q = at::randn({2, c.heads, c.length, 4});
  const at::Tensor k = at::randn({2, c.kv_heads, c.length, 4});
  const at::Tensor v = at::randn({2, c.kv_heads, c.length, 4});
  AttentionMask mask;
  mask.window = c.window;
  if (c.segments) {
    mask.segments = at::arange(c.length)
                        .div(3, "floor")
                        .to(at::kLong)
                        .unsqueeze(0)
                        .repeat({2, 1});
    mask.segments.narrow(1, c.length - 2, 2).fill_(-1);  // padding
  }
  const at::Tensor expected = ByDefinition(q, k, v, mask);
  EXPECT_TRUE(at::allclose(CausalAttention(q, k, v, mask, kernel), expected,
                           1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionTest,
    testing::Combine(
        testing::Values(Case{"plain", 2, 2, 9, 0, false},
                        Case{"grouped", 6, 2, 9, 0, false},
                        Case{"window", 2, 2, 11, 4, false},
                        Case{"wide_window", 2, 1, 7, 7, false},
                        Case{"segments", 4, 2, 11, 0, true},
                        Case{"segments_and_window", 2, 1, 11, 2, true}),
        testing::Values(AttentionKernel::kFused, AttentionKernel::kTiled)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) +
             (std::get<1>(info.param) == AttentionKernel::kFused ? "_fused"
                                                                 : "_tiled");
    });

TEST(PaddingMaskTest, HidesWhatLiesBehindTheLength) {
  const at::Tensor mask =
      PaddingMask(at::tensor({1, 3}, at::kLong), 3, at::kFloat);
  const float none = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(at::equal(
      mask, at::tensor({0.f, none, none, 0.f, 0.f, 0.f}).view({2, 1, 1, 3})));
}

class BidirectionalTest : public testing::TestWithParam<AttentionKernel> {
 protected:
  void SetUp() override {
    at::manual_seed(9);
    q_ = at::randn({2, 3, 7, 4});
    k_ = at::randn({2, 3, 7, 4});
    v_ = at::randn({2, 3, 7, 4});
    lengths_ = at::tensor({7, 4}, at::kLong);
  }
  at::Tensor q_, k_, v_, lengths_;
};

TEST_P(BidirectionalTest, ARowsPaddingIsAsGoodAsAbsent) {
  const at::Tensor keys = PaddingMask(lengths_, 7, at::kFloat);
  const at::Tensor out =
      BidirectionalAttention(q_, k_, v_, keys, 0, GetParam());
  for (int64_t row = 0; row < 2; ++row) {
    const int64_t n = lengths_[row].item<int64_t>();
    const at::Tensor scores =
        at::matmul(q_[row], k_[row].narrow(1, 0, n).transpose(1, 2)) / 2;
    const at::Tensor expected =
        at::matmul(scores.softmax(-1), v_[row].narrow(1, 0, n));
    EXPECT_TRUE(at::allclose(out[row], expected, 1e-5, 1e-6)) << row;
  }
}

TEST_P(BidirectionalTest, OneQueryIsWhatItIsAmongAll) {
  const at::Tensor keys = PaddingMask(lengths_, 7, at::kFloat);
  const at::Tensor all =
      BidirectionalAttention(q_, k_, v_, keys, 0, GetParam());
  const at::Tensor one =
      BidirectionalAttention(q_.narrow(2, 0, 1), k_, v_, keys, 0, GetParam());
  EXPECT_TRUE(at::allclose(one, all.narrow(2, 0, 1), 1e-5, 1e-6));
}

TEST_P(BidirectionalTest, DropoutDropsWholeProbabilitiesAndScalesTheRest) {
  const at::Tensor ones = at::ones({2, 3, 7, 4});
  const at::Tensor eye = at::eye(7).expand({2, 3, 7, 7});
  at::manual_seed(1);
  // With equal scores and v the identity, the output is the probabilities.
  const at::Tensor p =
      BidirectionalAttention(ones, ones, eye, at::Tensor(), 0.5, GetParam());
  const at::Tensor dropped = p == 0;
  EXPECT_GT(dropped.sum().item<int64_t>(), 50);
  EXPECT_LT(dropped.sum().item<int64_t>(), 244);
  EXPECT_TRUE(at::allclose(p.masked_select(dropped.logical_not()),
                           at::full({1}, 2.0 / 7)));
}

INSTANTIATE_TEST_SUITE_P(Kernels, BidirectionalTest,
                         testing::Values(AttentionKernel::kFused,
                                         AttentionKernel::kTiled),
                         [](const auto& info) {
                           return info.param == AttentionKernel::kFused
                                      ? "fused"
                                      : "tiled";
                         });

}  // namespace
}  // namespace mpsd::attention
