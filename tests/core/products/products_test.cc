// SPDX-License-Identifier: Apache-2.0
#include "core/products/products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

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

}  // namespace
}  // namespace mpsd::products
