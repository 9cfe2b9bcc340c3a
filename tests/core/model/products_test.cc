// SPDX-License-Identifier: Apache-2.0
#include "core/model/products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/host/traits.h"
#include "core/model/inner_product.h"
#include "core/model/wide_linear.h"
#include "tests/core/calls.h"

// That MPS gets the pieces, and is within its limits then, is tested in
// tests/ops.

namespace mpsd::products {

namespace {

using Two = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

std::vector<at::Tensor> Run(const Two& product, at::IntArrayRef b_shape) {
  at::manual_seed(1);
  const at::Tensor a = at::randn({2, 3, 5, 4}).requires_grad_(true);
  const at::Tensor b = at::randn(b_shape).requires_grad_(true);
  const at::Tensor y = product(a, b);
  y.mul(at::arange(y.numel()).view(y.sizes()).cos()).sum().backward();
  return {y.detach(), a.grad(), b.grad()};
}

void ExpectSame(const Two& ours, const Two& plain, at::IntArrayRef b_shape) {
  const auto actual = Run(ours, b_shape), expected = Run(plain, b_shape);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], 1e-5, 1e-6)) << i;
  }
  EXPECT_TRUE(actual[2].is_contiguous());
}

TEST(ProductsTest, AreThoseOfMatmul) {
  ExpectSame(
      Product,
      [](const at::Tensor& a, const at::Tensor& b) { return at::matmul(a, b); },
      {2, 3, 4, 6});
  ExpectSame(ProductOfTransposed,
             [](const at::Tensor& a, const at::Tensor& b) {
               return at::matmul(a, b.transpose(-1, -2));
             },
             {2, 3, 6, 4});
}

TEST(ProductsTest, OneSideMayBeFrozen) {
  const at::Tensor a = at::ones({2, 3});
  const at::Tensor b = at::ones({3, 2}).requires_grad_(true);
  Product(a, b).sum().backward();
  EXPECT_TRUE(at::equal(b.grad(), at::full({3, 2}, 2.0)));
}

TEST(ProductsTest, AGradientIsMadeContiguous) {
  const at::Tensor x = at::ones({2, 3, 4}).requires_grad_(true);
  bool contiguous = false;
  const at::Tensor y = x * 2;
  y.register_hook(
      [&](const at::Tensor& grad) { contiguous = grad.is_contiguous(); });
  const at::Tensor weight = at::randn({2, 4, 3});
  WithContiguousGradient(y).transpose(1, 2).mul(weight).sum().backward();
  EXPECT_TRUE(contiguous);
  EXPECT_TRUE(at::allclose(x.grad(), 2 * weight.transpose(1, 2)));
}

void ExpectProduct(const at::Tensor& x, const at::Tensor& w,
                   const std::optional<at::Tensor>& bias) {
  at::Tensor expected = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t());
  if (bias) expected = expected + bias->to(at::kDouble);
  const at::Tensor y = InnerProduct(x, w, bias);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LE(
      ((y.to(at::kDouble) - expected).norm() / expected.norm()).item<double>(),
      1e-6);
}

TEST(InnerProductTest, OfAnyStridesAndSizes) {
  for (const int64_t rows : {1, 63, 64, 200}) {
    const at::Tensor x = at::randn({rows, 96}), w = at::randn({40, 96});
    ExpectProduct(x, w, std::nullopt);
    ExpectProduct(x, w, at::randn({40}));
    ExpectProduct(x, at::randn({96, 40}).t(), std::nullopt);
    ExpectProduct(x.narrow(1, 10, 32), w.narrow(1, 64, 32), std::nullopt);
    ExpectProduct(at::randn({96, rows}).t(), w, std::nullopt);
    ExpectProduct(x.slice(1, 0, 96, 2), w.slice(1, 1, 96, 2), std::nullopt);
  }
}

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
