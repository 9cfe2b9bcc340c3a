// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/core/scratch_folder.h"

namespace mpsd::tensorfile {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path Golden(const std::string& name) {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests/golden" / name / "model";
}

TEST(WeightsTest, ShardsReadAsTheWholeFile) {
  auto whole = Weights::Open(Golden("llama2"));
  auto shards = Weights::Open(Golden("llama2_sharded"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_GT((*shards)->files().size(), 1u);
  ASSERT_EQ((*whole)->names(), (*shards)->names());
  auto file = *SafetensorsFile::Open(Golden("llama2") / "model.safetensors");
  for (const auto& [name, entry] : file->entries()) {
    auto tensor = (*shards)->Load(name, entry.shape, at::kCPU, entry.dtype);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(at::equal(*tensor, *file->Load(name))) << name;
  }
}

TEST(WeightsTest, NamesWhatIsMissingOrMisshapen) {
  auto weights = *Weights::Open(Golden("llama2"));
  const absl::Status missing =
      weights->Load("no.such", {1}, at::kCPU, at::kFloat).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no.such"));
  const absl::Status shape =
      weights->Load("model.norm.weight", {1}, at::kCPU, at::kFloat).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.message()), HasSubstr("config.json asks for"));
}

class BadFolderTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = testing_support::FreshFolder("weights"); }
  void WriteIndex(const std::string& text) {
    std::ofstream(dir_ / "model.safetensors.index.json") << text;
  }
  fs::path dir_;
};

TEST_F(BadFolderTest, WithoutWeightsSaysWhatItLookedFor) {
  const absl::Status status = Weights::Open(dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors"));
}

TEST_F(BadFolderTest, AnIndexMayNotLeaveTheFolder) {
  WriteIndex(R"({"weight_map": {"x": "../secret.safetensors"}})");
  EXPECT_EQ(Weights::Open(dir_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BadFolderTest, ABrokenIndexOrAMissingShardIsAnError) {
  WriteIndex("[]");
  EXPECT_EQ(Weights::Open(dir_).status().code(),
            absl::StatusCode::kInvalidArgument);
  WriteIndex(R"({"weight_map": {"x": "gone.safetensors"}})");
  const absl::Status status = Weights::Open(dir_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gone.safetensors"));
}

}  // namespace
}  // namespace mpsd::tensorfile
