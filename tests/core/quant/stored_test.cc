// SPDX-License-Identifier: Apache-2.0
#include "core/quant/stored.h"

#include <gtest/gtest.h>

#include "tests/core/quant/golden.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::quant {
namespace {

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
          LoadStored(*weights, name_, dense.size(0), dense.size(1), at::kCPU);
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_TRUE(at::equal((*stored)->Dense(dense.scalar_type()), dense));
    }
  }
}

TEST_F(StoredTest, ADenseWeightIsNotStoredQuantized) {
  const auto weights = Write("plain.float32.");
  EXPECT_FALSE(IsStored(*weights, std::string(kModule) + "source"));
  EXPECT_FALSE(IsStored(*weights, "another.weight"));
}

TEST_F(StoredTest, SaysWhatIsMissing) {
  const auto weights = Write("plain.float32.nf4.", "weight.absmax");
  const auto stored = LoadStored(*weights, name_, 16, 128, at::kCPU);
  EXPECT_EQ(stored.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stored.status().message(),
            "quantized weight \"model.layers.0.mlp.up_proj.weight\": the model "
            "has no \"model.layers.0.mlp.up_proj.weight.absmax\"");
}

TEST_F(StoredTest, RefusesAnotherShape) {
  const auto weights = Write("plain.float32.nf4.");
  const auto stored = LoadStored(*weights, name_, 128, 16, at::kCPU);
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
  const auto stored = LoadStored(*weights, name_, 4, 4, at::kCPU);
  EXPECT_EQ(stored.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mpsd::quant
