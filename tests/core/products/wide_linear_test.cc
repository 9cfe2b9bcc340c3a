// SPDX-License-Identifier: Apache-2.0
// That MPS gets the pieces, and is within its limits then, is tested in
// tests/ops.
#include "core/products/wide_linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/backend/traits.h"
#include "tests/core/calls.h"

namespace mpsd::products {
namespace {

TEST(WideLinearTest, PiecesGiveTheWhole) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({23, 6}).requires_grad_(true);
  const at::Tensor bias = at::randn({23});
  const auto run = [&](bool pieces) -> std::vector<at::Tensor> {
    at::manual_seed(2);
    const at::Tensor x = at::randn({2, 5, 6}).requires_grad_(true);
    weight.mutable_grad() = at::Tensor();
    const at::Tensor y = pieces ? LinearInPieces(x, weight, bias, 7)
                                : at::linear(x, weight, bias);
    y.square().sum().backward();
    return {y.detach(), x.grad(), weight.grad().clone()};
  };
  const auto whole = run(false), pieces = run(true);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(at::allclose(pieces[i], whole[i], 1e-5, 1e-6)) << i;
  }
}

TEST(WideLinearTest, NoBiasIsNone) {
  const at::Tensor x = at::randn({4, 3}), weight = at::randn({9, 3});
  EXPECT_TRUE(at::allclose(LinearInPieces(x, weight, {}, 4),
                           at::linear(x, weight), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(WideLinear(x, weight), at::linear(x, weight)));
}

TEST(WideLinearTest, ProductsAddUpInFp32) {
  at::manual_seed(3);
  const at::Tensor d = at::randn({5, 41}), weight = at::randn({41, 8});
  const at::Tensor expected = at::matmul(d, weight);
  EXPECT_TRUE(at::allclose(TimesInPieces(d, weight, 16), expected, 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(TimesWide(d, weight), expected));
  const at::Tensor narrow =
      TimesInPieces(d.to(at::kBFloat16), weight.to(at::kBFloat16), 16);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(narrow.to(at::kFloat), expected, 0.05, 0.1));
}

// A device that is neither the CPU nor MPS, as CUDA is, has no limit.
TEST(WideLinearTest, OtherDevicesTakeOneProduct) {
  const auto options = at::device(at::kMeta);
  const int64_t most = *backend::TraitsOf(backend::Choice::kMps).max_sum;
  const at::Tensor weight = at::empty({most + 1, 4}, options);
  const at::Tensor x = at::empty({2, 4}, options);
  const at::Tensor d = at::empty({2, most + 1}, options);
  EXPECT_EQ(testing_support::CallsOf([&] { WideLinear(x, weight); }),
            testing_support::CallsOf([&] { at::linear(x, weight); }));
  EXPECT_EQ(testing_support::CallsOf([&] { TimesWide(d, weight); }),
            testing_support::CallsOf([&] { at::matmul(d, weight); }));
}

}  // namespace
}  // namespace mpsd::products
