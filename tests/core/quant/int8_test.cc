// SPDX-License-Identifier: Apache-2.0
#include "core/quant/int8.h"

#include <gtest/gtest.h>

#include "tests/core/quant/golden.h"

namespace mpsd::quant {
namespace {

TEST(Int8Test, CodesScalesAndValuesAreThoseOfBitsandbytes) {
  for (const std::string& name : GoldenWeights()) {
    SCOPED_TRACE(name);
    const std::string golden = name + ".half.int8.";
    const Int8Parts parts = QuantizeInt8(Golden(name + ".half.source"));
    EXPECT_TRUE(at::equal(parts.codes, Golden(golden + "weight")));
    EXPECT_TRUE(at::equal(parts.absmax, Golden(golden + "SCB")));
    EXPECT_TRUE(at::equal(MakeInt8(parts, at::kCPU)->Dense(at::kFloat),
                          Golden(golden + "dense")));
  }
}

// More values than are made dense at a time.
TEST(Int8Test, LargeWeightsAreMadeInPieces) {
  const at::Tensor weight = at::randn({1100, 1024});
  const auto dense = [](const at::Tensor& w) {
    return MakeInt8(QuantizeInt8(w), at::kCPU)->Dense(at::kBFloat16);
  };
  EXPECT_TRUE(at::equal(dense(weight).narrow(0, 1024, 76),
                        dense(weight.narrow(0, 1024, 76))));
}

TEST(Int8Test, ARowOfZerosStaysZero) {
  const auto weight =
      MakeInt8(QuantizeInt8(at::zeros({2, 8}, at::kBFloat16)), at::kCPU);
  EXPECT_TRUE(at::equal(weight->Dense(at::kFloat), at::zeros({2, 8})));
}

TEST(Int8Test, TakesAByteAValue) {
  const auto weight = MakeInt8(QuantizeInt8(at::randn({32, 48})), at::kCPU);
  EXPECT_EQ(weight->bytes(), 32 * 48 + 32 * 4);
  EXPECT_EQ(weight->rows(), 32);
  EXPECT_EQ(weight->columns(), 48);
}

}  // namespace
}  // namespace mpsd::quant
