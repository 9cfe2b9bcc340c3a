// SPDX-License-Identifier: Apache-2.0
#include "core/quant/quantize.h"

#include <gtest/gtest.h>

#include "tests/core/quant/golden.h"

namespace mpsd::quant {
namespace {

at::Tensor Dense(const std::string& source, const Options& options) {
  const at::Tensor weight = Golden(source);
  return Quantize(weight, options, at::kCPU)->Dense(at::kFloat);
}

TEST(QuantizeTest, EachFormatGivesItsValues) {
  EXPECT_TRUE(at::equal(Dense("many.float32.source", {Format::kNf4, false}),
                        Golden("many.float32.nf4.dense")));
  EXPECT_TRUE(at::equal(Dense("many.float32.source", {Format::kNf4, true}),
                        Golden("many.float32.nf4_double.dense")));
  EXPECT_TRUE(at::equal(Dense("many.half.source", {Format::kInt8, false}),
                        Golden("many.half.int8.dense")));
}

}  // namespace
}  // namespace mpsd::quant
