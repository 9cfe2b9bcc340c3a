// SPDX-License-Identifier: Apache-2.0
#include "core/tensorfile/sharded_writer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/tensorfile/weights.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::tensorfile {
namespace {

namespace fs = std::filesystem;

const std::vector<PlannedTensor> kPlan = {{"a", at::kFloat, {10}},
                                          {"b", at::kFloat, {10}},
                                          {"c", at::kFloat, {30}},
                                          {"d", at::kBFloat16, {2, 5}}};

at::Tensor Value(const PlannedTensor& t, double value) {
  return at::full(t.shape, value, t.dtype);
}

int64_t WriteAll(const fs::path& folder, int64_t max_shard_bytes) {
  auto writer = *ShardedWriter::Create(folder, kPlan, max_shard_bytes);
  double value = 0;
  for (const PlannedTensor& t : kPlan) {
    EXPECT_TRUE(writer->Append(Value(t, ++value)).ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return writer->shard_count();
}

void ExpectAll(const fs::path& folder) {
  const auto weights = *Weights::Open(folder);
  double value = 0;
  for (const PlannedTensor& t : kPlan) {
    const auto read = weights->Load(t.name, t.shape, at::kCPU, t.dtype);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(at::equal(*read, Value(t, ++value)));
  }
}

TEST(ShardedWriterTest, OneFileWhereAllFits) {
  const fs::path folder = testing_support::FreshFolder("one");
  EXPECT_EQ(WriteAll(folder, 1000), 1);
  EXPECT_TRUE(fs::exists(folder / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  ExpectAll(folder);
}

TEST(ShardedWriterTest, ShardsAndAnIndexAsSavePretrainedWritesThem) {
  const fs::path folder = testing_support::FreshFolder("shards");
  // a and b fill a file, c alone is larger than one may be.
  EXPECT_EQ(WriteAll(folder, 80), 3);
  ExpectAll(folder);
  const auto index = nlohmann::json::parse(
      *base::ReadFile(folder / "model.safetensors.index.json"));
  EXPECT_EQ(index, nlohmann::json::parse(R"({
    "metadata": {"total_parameters": 60, "total_size": 220},
    "weight_map": {"a": "model-00001-of-00003.safetensors",
                   "b": "model-00001-of-00003.safetensors",
                   "c": "model-00002-of-00003.safetensors",
                   "d": "model-00003-of-00003.safetensors"}})"));
}

TEST(ShardedWriterTest, AnUnfinishedPlanIsAnError) {
  auto writer =
      *ShardedWriter::Create(testing_support::FreshFolder("cut"), kPlan, 1000);
  ASSERT_TRUE(writer->Append(Value(kPlan[0], 1)).ok());
  EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ParseByteSizeTest, SpellsSizesAsTransformersDoes) {
  EXPECT_EQ(*ParseByteSize("5GB"), 5'000'000'000);
  EXPECT_EQ(*ParseByteSize("200MiB"), 200 << 20);
  EXPECT_EQ(*ParseByteSize("4096"), 4096);
  for (const char* bad :
       {"", "GB", "5 gigabytes", "-1GB", "0", "1.5GB", "9999999999999GB"}) {
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace mpsd::tensorfile
