// SPDX-License-Identifier: Apache-2.0
#include "core/model/quant.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/ckpt/safetensors.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::quant {
namespace {

// What bitsandbytes made: tests/golden/quant.py.
const tensorfile::SafetensorsFile& Golden() {
  static const auto& file = *new std::unique_ptr<tensorfile::SafetensorsFile>(
      tensorfile::SafetensorsFile::Open(std::string(MPSD_TEST_SOURCE_DIR) +
                                        "/tests/golden/quant.safetensors")
          .value());
  return *file;
}

at::Tensor Golden(const std::string& name) {
  return Golden().Load(name).value();
}

const std::vector<std::string>& GoldenWeights() {
  static const auto& names =
      *new std::vector<std::string>{"plain", "uneven", "rest", "many"};
  return names;
}

using testing_support::Fails;

// Counts how often the matrix is made.
class Counted : public QuantizedWeight {
 public:
  explicit Counted(at::Tensor w)
      : QuantizedWeight(w.size(0), w.size(1)), weight_(std::move(w)) {}
  at::Tensor Dense(at::ScalarType dtype) const override {
    ++made;
    return weight_.to(dtype);
  }
  int64_t bytes() const override { return 0; }
  at::Device device() const override { return at::kCPU; }
  mutable int made = 0;

 private:
  const at::Tensor weight_;
};

TEST(LinearForwardTest, IsALinearLayerWithAGradientForItsInput) {
  const auto weight = MakeNf4(QuantizeNf4(at::randn({12, 64}), true), at::kCPU);
  const at::Tensor bias = at::randn({12});
  const at::Tensor x = at::randn({2, 3, 64}).requires_grad_(true);
  const at::Tensor other = x.detach().clone().requires_grad_(true);
  const at::Tensor y = LinearForward(x, weight, bias);
  const at::Tensor expected =
      at::linear(other, weight->Dense(at::kFloat), bias);
  EXPECT_TRUE(at::equal(y, expected));
  const at::Tensor dy = at::randn_like(y);
  y.backward(dy);
  expected.backward(dy);
  EXPECT_TRUE(at::allclose(x.grad(), other.grad(), 1e-6, 1e-6));
}

TEST(LinearForwardTest, MakesTheMatrixAgainInTheBackward) {
  const auto weight = std::make_shared<Counted>(at::randn({4, 6}));
  const at::Tensor x = at::randn({3, 6}).requires_grad_(true);
  const at::Tensor y = LinearForward(x, weight, {});
  EXPECT_EQ(weight->made, 1);
  y.sum().backward();
  EXPECT_EQ(weight->made, 2);
}

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
  {
    const auto weight = MakeInt8(QuantizeInt8(at::randn({32, 48})), at::kCPU);
    EXPECT_EQ(weight->bytes(), 32 * 48 + 32 * 4);
    EXPECT_EQ(weight->rows(), 32);
    EXPECT_EQ(weight->columns(), 48);
  }
}

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

TEST(Nf4Test, MapsCodesAndScalesAreThoseOfBitsandbytes) {
  EXPECT_TRUE(
      at::equal(Nf4Values(), Golden("plain.float32.nf4.weight.quant_map")));
  EXPECT_TRUE(
      at::equal(DynamicMap(),
                Golden("plain.float32.nf4_double.weight.nested_quant_map")));
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

constexpr char kModule[] = "model.layers.0.mlp.up_proj.";

// A model folder with one weight, stored as golden's tensors under `golden`.
class StoredTest : public testing::Test {
 protected:
  std::unique_ptr<tensorfile::Weights> Write(const std::string& golden,
                                             const std::string& without = "") {
    tensorfile::NamedTensors tensors;
    for (const auto& [name, entry] : Golden().entries()) {
      if (!name.starts_with(golden)) continue;
      const std::string part = name.substr(golden.size());
      if (part == "dense" || part == without) continue;
      tensors.emplace_back(kModule + part, Golden(name));
    }
    EXPECT_TRUE(
        tensorfile::WriteSafetensors(folder_ / "model.safetensors", tensors)
            .ok());
    return tensorfile::Weights::Open(folder_).value();
  }
  const std::string name_ = std::string(kModule) + "weight";
  const std::filesystem::path folder_ = testing_support::FreshFolder("stored");
};

TEST_F(StoredTest, ReadsWhatBitsandbytesSaves) {
  for (const std::string& weight : GoldenWeights()) {
    for (const char* kind :
         {".float32.nf4", ".bfloat16.nf4", ".float32.nf4_double",
          ".bfloat16.nf4_double", ".half.int8"}) {
      const std::string golden = weight + kind + ".";
      SCOPED_TRACE(golden);
      const at::Tensor dense = Golden(golden + "dense");
      const auto weights = Write(golden);
      EXPECT_TRUE(IsStored(*weights, name_));
      const auto stored =
          *LoadStored(*weights, name_, dense.size(0), dense.size(1), at::kCPU);
      EXPECT_TRUE(at::equal(stored->Dense(dense.scalar_type()), dense));
    }
  }
}

TEST_F(StoredTest, SaysWhatIsMissingAndRefusesAnotherShape) {
  const auto dense = Write("plain.float32.");
  EXPECT_FALSE(IsStored(*dense, std::string(kModule) + "source"));
  EXPECT_FALSE(IsStored(*dense, "another.weight"));
  const auto weights = Write("plain.float32.nf4.", "weight.absmax");
  EXPECT_THAT(
      LoadStored(*weights, name_, 16, 128, at::kCPU),
      Fails(absl::StatusCode::kInvalidArgument,
            testing::StrEq(
                "quantized weight \"model.layers.0.mlp.up_proj.weight\": the "
                "model has no \"model.layers.0.mlp.up_proj.weight.absmax\"")));
  const auto whole = Write("plain.float32.nf4.");
  const auto stored = LoadStored(*whole, name_, 128, 16, at::kCPU);
  EXPECT_EQ(stored.status().message(),
            "quantized weight \"model.layers.0.mlp.up_proj.weight\": its "
            "quant_state does not say shape [128, 16]");
}

TEST_F(StoredTest, RefusesAnotherType) {
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(folder_ / "model.safetensors",
                                   {{name_, at::zeros({8, 1}, at::kByte)},
                                    {name_ + ".quant_state.bitsandbytes__fp4",
                                     at::zeros({2}, at::kByte)}})
          .ok());
  const auto weights = tensorfile::Weights::Open(folder_).value();
  EXPECT_TRUE(absl::IsUnimplemented(
      LoadStored(*weights, name_, 4, 4, at::kCPU).status()));
}

}  // namespace

}  // namespace mpsd::quant
