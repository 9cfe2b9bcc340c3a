// SPDX-License-Identifier: Apache-2.0
#include "core/train/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/host/footprint_watch.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::train {
namespace {

using testing_support::FreshFolder;

// A CPU counts no tensors: the process' memory is all there is to tell.
TEST(ManifestTest, TellsThePeakOfTheProcess) {
  const auto folder = FreshFolder("manifest_footprint");
  const host::FootprintWatch watch;
  ASSERT_TRUE(WriteManifest(folder, {}).ok());
  const auto json = nlohmann::json::parse(*base::ReadFile(folder / "run.json"));
  EXPECT_TRUE(json["memory"]["peak_allocated_bytes"].is_null());
  EXPECT_GT(json["memory"]["peak_footprint_bytes"], 1 << 20);
}

TEST(ManifestTest, HoldsTheWholeSpecAndTheResult) {
  const auto folder = FreshFolder("manifest");
  Manifest manifest;
  manifest.state = "SUCCEEDED";
  manifest.spec.model = "/models/x";
  manifest.spec.training.seed = 11;
  manifest.resumed_at_steps = {4, 9};
  manifest.progress.eval_loss_before = 2.5;
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
  EXPECT_TRUE(json["memory"]["peak_footprint_bytes"].is_null());  // no watch
  EXPECT_EQ(json["warnings"],
            nlohmann::json::array({"memory grows", "not UTF-8: \uFFFD"}));
  EXPECT_EQ(json["attention"]["training"]["forward"], "blocked and flash");
  EXPECT_EQ(json["attention"]["training"]["backward"], "blocked");
  EXPECT_TRUE(json["attention"]["evaluation"].is_null());
  const EarlierAttempts earlier = ReadEarlierAttempts(folder, 12);
  AttentionNames names = earlier.attention;
  EXPECT_EQ(names.training, manifest.attention.training);
  names.Add({{{"flash"}, {"flash"}}, {"tiled"}});
  EXPECT_THAT(names.training.backward,
              testing::ElementsAre("blocked", "flash"));
  EXPECT_THAT(names.evaluation, testing::ElementsAre("tiled"));
  EXPECT_THAT(earlier.cpu_fallback_ops,
              testing::ElementsAre(testing::Pair("aten::a", 3)));
  EXPECT_THAT(earlier.resumed_at_steps, testing::ElementsAre(4, 9, 12));
  const EarlierAttempts over = ReadEarlierAttempts(folder, 0);
  EXPECT_TRUE(over.cpu_fallback_ops.empty());
  EXPECT_TRUE(over.attention.training.forward.empty());
  EXPECT_THAT(over.resumed_at_steps, testing::ElementsAre(4, 9));
}

// A loss before training is no result of it.
TEST(ManifestTest, TheResultIsWhatTheStepsGave) {
  const auto folder = FreshFolder("manifest_result");
  Manifest manifest;
  ckpt::TrainerState& state = manifest.progress;
  state.eval_loss = state.eval_loss_before = 2.0;
  state.eval_metrics = {{"perplexity", 7.4}};
  const auto result = [&] {
    EXPECT_TRUE(WriteManifest(folder, manifest).ok());
    return nlohmann::json::parse(
        *base::ReadFile(folder / "run.json"))["result"];
  };
  EXPECT_TRUE(result()["train_loss"].is_null());
  EXPECT_TRUE(result()["eval_loss_after"].is_null());
  EXPECT_TRUE(result()["eval_metrics"].empty());
  EXPECT_FALSE(result().contains("best"));
  state.step = state.eval_step = state.best_step = 4;
  state.loss_sum = 6;
  state.best_metric = 2.0;
  EXPECT_EQ(result()["train_loss"], 1.5);
  EXPECT_EQ(result()["eval_loss_after"], 2.0);
  EXPECT_EQ(result()["eval_metrics"]["perplexity"], 7.4);
  EXPECT_EQ(result()["best"]["step"], 4);
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
  const auto folder = FreshFolder("manifest_none");
  EXPECT_TRUE(ReadEarlierAttempts(folder, 4).attention.evaluation.empty());
  EXPECT_TRUE(ReadEarlierAttempts(folder, 4).cpu_fallback_ops.empty());
  EXPECT_TRUE(ReadEarlierAttempts(folder, 0).resumed_at_steps.empty());
}

}  // namespace
}  // namespace mpsd::train
