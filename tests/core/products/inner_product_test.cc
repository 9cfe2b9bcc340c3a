// SPDX-License-Identifier: Apache-2.0
#include "core/products/inner_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mpsd::products {
namespace {

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

}  // namespace
}  // namespace mpsd::products
