// SPDX-License-Identifier: Apache-2.0
#include "core/train/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::train {
namespace {

using testing_support::FreshFolder;

TEST(ManifestTest, HoldsTheWholeSpecAndTheResult) {
  const auto folder = FreshFolder("manifest");
  Manifest manifest;
  manifest.state = "SUCCEEDED";
  manifest.spec.model = "/models/x";
  manifest.spec.training.seed = 11;
  manifest.resumed_at_steps = {4, 9};
  manifest.eval_loss_before = 2.5;
  manifest.environment = {{"PYTORCH_X", "1"}};
  manifest.memory.peak_allocated = 7;
  manifest.cpu_fallback_ops = {{"aten::a", 3}};
  manifest.warnings = {"memory grows", "not UTF-8: \xff"};
  manifest.attention.training = {{"blocked", "flash"}, {"blocked"}};
  ASSERT_TRUE(WriteManifest(folder, manifest).ok());
  const auto json = nlohmann::json::parse(*base::ReadFile(folder / "run.json"));
  EXPECT_EQ(json["state"], "SUCCEEDED");
  EXPECT_EQ(json["seed"], 11);
  EXPECT_EQ(json["spec"]["lora"]["r"], 8);
  EXPECT_EQ(json["spec"]["training"]["adam_beta2"], 0.999);
  EXPECT_EQ(json["result"]["eval_loss_before"], 2.5);
  EXPECT_TRUE(json["result"]["eval_loss_after"].is_null());
  EXPECT_EQ(json["environment"]["PYTORCH_X"], "1");
  EXPECT_EQ(json["memory"]["peak_allocated_bytes"], 7);
  EXPECT_TRUE(json["memory"]["driver_overhead_growth_bytes"].is_null());
  EXPECT_EQ(json["warnings"],
            nlohmann::json::array({"memory grows", "not UTF-8: \uFFFD"}));
  EXPECT_EQ(json["attention"]["training"]["forward"], "blocked and flash");
  EXPECT_EQ(json["attention"]["training"]["backward"], "blocked");
  EXPECT_TRUE(json["attention"]["evaluation"].is_null());
  AttentionNames names = ReadAttention(folder);
  EXPECT_EQ(names.training, manifest.attention.training);
  names.Add({{{"flash"}, {"flash"}}, {"tiled"}});
  EXPECT_THAT(names.training.backward,
              testing::ElementsAre("blocked", "flash"));
  EXPECT_THAT(names.evaluation, testing::ElementsAre("tiled"));
  EXPECT_THAT(ReadFallbacks(folder),
              testing::ElementsAre(testing::Pair("aten::a", 3)));
  EXPECT_THAT(ReadResumedSteps(folder), testing::ElementsAre(4, 9));
}

// A file of another kind of network has thousands.
TEST(ManifestTest, ListsTheFirstOfTheTensorsThatNothingUsed) {
  const auto folder = FreshFolder("manifest_tensors");
  Manifest manifest;
  manifest.load_report.missing = {"score.weight"};
  for (int i = 0; i < 5000; ++i) {
    manifest.load_report.unused.push_back("tensor" + std::to_string(i));
  }
  ASSERT_TRUE(WriteManifest(folder, manifest).ok());
  const auto json = nlohmann::json::parse(*base::ReadFile(folder / "run.json"));
  EXPECT_EQ(json["unused_tensors"]["count"], 5000);
  EXPECT_EQ(json["unused_tensors"]["names"].size(), 100u);
  EXPECT_EQ(json["unused_tensors"]["names"][99], "tensor99");
  EXPECT_EQ(json["missing_tensors"],
            nlohmann::json({{"count", 1}, {"names", {"score.weight"}}}));
}

TEST(ManifestTest, NoManifestMeansNoRestarts) {
  EXPECT_TRUE(ReadAttention(FreshFolder("manifest_none")).evaluation.empty());
  EXPECT_TRUE(ReadResumedSteps(FreshFolder("manifest_none")).empty());
  EXPECT_TRUE(ReadFallbacks(FreshFolder("manifest_none")).empty());
}

}  // namespace
}  // namespace mpsd::train
