// SPDX-License-Identifier: Apache-2.0
#include "core/quant/nf4.h"

#include <gtest/gtest.h>

#include "tests/core/quant/golden.h"

namespace mpsd::quant {
namespace {

// A weight and how bitsandbytes quantised it.
struct Case {
  std::string name;  // "plain.float32"
  bool nested;
  std::string quantized() const {
    return name + (nested ? ".nf4_double." : ".nf4.");
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& weight : GoldenWeights()) {
    for (const char* dtype : {".float32", ".bfloat16"}) {
      for (bool nested : {false, true})
        cases.push_back({weight + dtype, nested});
    }
  }
  return cases;
}

TEST(Nf4Test, MapsAreThoseOfBitsandbytes) {
  EXPECT_TRUE(
      at::equal(Nf4Values(), Golden("plain.float32.nf4.weight.quant_map")));
  EXPECT_TRUE(
      at::equal(DynamicMap(),
                Golden("plain.float32.nf4_double.weight.nested_quant_map")));
}

TEST(Nf4Test, CodesAndScalesAreThoseOfBitsandbytes) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.quantized());
    const Nf4Parts parts = QuantizeNf4(Golden(c.name + ".source"), c.nested);
    const at::Tensor codes = Golden(c.quantized() + "weight").view({-1});
    EXPECT_TRUE(at::equal(parts.codes.narrow(0, 0, codes.numel()), codes));
    EXPECT_TRUE(
        at::equal(parts.absmax, Golden(c.quantized() + "weight.absmax")));
    if (!c.nested) continue;
    EXPECT_TRUE(at::equal(parts.nested_absmax,
                          Golden(c.quantized() + "weight.nested_absmax")));
  }
}

TEST(Nf4Test, DenseValuesAreThoseOfBitsandbytes) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.quantized());
    const at::Tensor source = Golden(c.name + ".source");
    const auto weight = MakeNf4(QuantizeNf4(source, c.nested), at::kCPU);
    const at::Tensor dense = weight->Dense(source.scalar_type());
    EXPECT_TRUE(at::equal(dense, Golden(c.quantized() + "dense")));
    EXPECT_EQ(weight->rows(), source.size(0));
    EXPECT_EQ(weight->columns(), source.size(1));
  }
}

TEST(Nf4Test, IsRoundedToTheDtypeBeforeQuantisation) {
  const at::Tensor source = Golden("plain.bfloat16.source");
  const at::Tensor dense =
      MakeNf4(QuantizeNf4(source, false), at::kCPU)->Dense(at::kFloat);
  EXPECT_EQ(dense.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(dense, dense.to(at::kBFloat16).to(at::kFloat)));
}

// More values than are quantised at a time.
TEST(Nf4Test, QuantisesLargeWeightsInPieces) {
  const at::Tensor weight = at::randn({1100, 4096});
  const at::Tensor dense =
      MakeNf4(QuantizeNf4(weight, false), at::kCPU)->Dense(at::kFloat);
  const at::Tensor last = weight.narrow(0, 1024, 76);
  EXPECT_TRUE(at::equal(
      dense.narrow(0, 1024, 76),
      MakeNf4(QuantizeNf4(last, false), at::kCPU)->Dense(at::kFloat)));
}

TEST(Nf4Test, TakesFourBitsAValueAndItsScales) {
  const at::Tensor weight = at::randn({512, 512});
  const int64_t table = 256 * 2 * 4, blocks = 512 * 512 / 64;
  EXPECT_EQ(MakeNf4(QuantizeNf4(weight, false), at::kCPU)->bytes(),
            512 * 512 / 2 + 4 * blocks + table);
  EXPECT_EQ(MakeNf4(QuantizeNf4(weight, true), at::kCPU)->bytes(),
            512 * 512 / 2 + blocks + 4 * blocks / 256 + 4 * 256 + table);
}

}  // namespace
}  // namespace mpsd::quant
