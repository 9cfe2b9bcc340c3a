// SPDX-License-Identifier: Apache-2.0
// How a job's steps are cut into micro-batches, and what run.json says of it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "core/base/file.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

class AutoBatchTest : public testing::Test {
 protected:
  AutoBatchTest() {
    folder_.training()["per_device_train_batch_size"] = 2;
    folder_.training()["gradient_accumulation_steps"] = 3;
    folder_.job()["lora"]["lora_dropout"] = 0;
  }
  absl::StatusOr<RunResult> Train(const std::string& out,
                                  RecordingObserver& observer) {
    return train::Train(folder_, out, observer);
  }
  json Choice(const std::string& out) {
    return json::parse(
        *base::ReadFile(folder_.path() / out / "run.json"))["micro_batch"];
  }
  // Trains the first step of the run `out`, whose next attempt finds that it
  // began with this choice.
  void BeginWith(const std::string& out, int64_t rows, bool checkpointing,
                 bool selective = false) {
    RecordingObserver first;
    first.stop_after = 1;
    ASSERT_TRUE(Train(out, first).ok());
    const auto file = folder_.path() / out / "run.json";
    json run = json::parse(*base::ReadFile(file));
    json& plan = run["micro_batch"];
    plan["rows"] = rows;
    plan["gradient_checkpointing"] = checkpointing;
    plan["recompute_granularity"] = selective ? "selective" : "full";
    ASSERT_TRUE(base::WriteFileAtomic(file, run.dump()).ok());
  }

  JobFolder folder_{"auto_batch"};
};

// The same rows and the same gradient, up to rounding.
void ExpectSameSteps(const std::vector<report::Progress>& steps,
                     const std::vector<report::Progress>& expected) {
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const report::Progress &a = steps[i], &b = expected[i];
    EXPECT_NEAR(a.loss, b.loss, 1e-5) << i;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm) << i;
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.label_tokens, b.label_tokens);
  }
}

TEST_F(AutoBatchTest, WhateverIsChosenTheRunIsTheSame) {
  RecordingObserver as_stated;
  ASSERT_TRUE(Train("stated", as_stated).ok());
  EXPECT_TRUE(Choice("stated").is_null());
  folder_.training()["auto_find_batch_size"] = true;
  RecordingObserver tried;
  const auto result = Train("tried", tried);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Choice("tried")["from"], "trial");
  EXPECT_FALSE(Choice("tried")["trials"].empty());
  struct Way {
    int64_t rows;
    bool checkpointing, selective;
  };
  for (const auto& [rows, checkpointing, selective] : {Way{1, true, false},
                                                       {2, true, true},
                                                       {3, false, false},
                                                       {6, true, false}}) {
    const std::string out = "rows" + std::to_string(rows);
    BeginWith(out, rows, checkpointing, selective);
    RecordingObserver observer;
    ASSERT_TRUE(Train(out, observer).ok());
    EXPECT_EQ(Choice(out)["from"], "resumed");
    EXPECT_EQ(Choice(out)["rows"], rows);
    EXPECT_EQ(Choice(out)["accumulation"], 6 / rows);
    EXPECT_EQ(Choice(out)["gradient_checkpointing"], checkpointing);
    EXPECT_EQ(Choice(out).value("recompute_granularity", "none"),
              !checkpointing ? "none" : (selective ? "selective" : "full"));
    ExpectSameSteps(observer.steps,
                    {as_stated.steps.begin() + 1, as_stated.steps.end()});
  }
}

TEST_F(AutoBatchTest, ShortRowsSideBySideTrainTheSame) {
  folder_.training()["padding_free"] = false;
  RecordingObserver padded, beside;
  ASSERT_TRUE(Train("padded", padded).ok());
  folder_.training()["padding_free"] = true;
  ASSERT_TRUE(Train("beside", beside).ok());
  ExpectSameSteps(beside.steps, padded.steps);
  int64_t before = 0, after = 0;
  for (const auto& step : padded.steps) before += *step.padded_tokens;
  for (const auto& step : beside.steps) after += *step.padded_tokens;
  EXPECT_LT(after, before);
}

TEST_F(AutoBatchTest, AResumedRunKeepsToWhatItBeganWith) {
  folder_.training()["auto_find_batch_size"] = true;
  folder_.job()["lora"]["lora_dropout"] = 0.1;  // masks depend on the choice
  BeginWith("whole", 3, false);
  fs::copy(folder_.path() / "whole", folder_.path() / "parts",
           fs::copy_options::recursive);
  RecordingObserver whole, part, rest;
  ASSERT_TRUE(Train("whole", whole).ok());
  part.stop_after = 3;
  ASSERT_TRUE(Train("parts", part).ok());
  ASSERT_TRUE(Train("parts", rest).ok());
  EXPECT_EQ(Choice("parts")["from"], "resumed");
  EXPECT_EQ(Choice("parts")["rows"], 3);
  EXPECT_EQ(AdapterBytes(folder_, "parts"), AdapterBytes(folder_, "whole"));
}

TEST_F(AutoBatchTest, CheckpointingThatTheJobStatesIsKept) {
  folder_.training()["auto_find_batch_size"] = true;
  folder_.training()["gradient_checkpointing"] = true;
  RecordingObserver observer;
  ASSERT_TRUE(Train("kept", observer).ok());
  EXPECT_EQ(Choice("kept")["gradient_checkpointing"], true);
}

TEST(PrepareTest, EpochsSetTheLengthWhenMaxStepsDoesNot) {
  JobFolder folder("prepare_epochs");
  folder.training().erase("max_steps");
  folder.training()["num_train_epochs"] = 1.5;
  folder.training()["eval_steps"] = 0;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 8);  // ceil(1.5 · ceil(10 rows / 2))
  std::vector<int64_t> eval_steps;
  for (const auto& eval : observer.evals) eval_steps.push_back(eval.step);
  EXPECT_THAT(eval_steps, ElementsAre(0, 5, 8));
  EXPECT_DOUBLE_EQ(observer.steps.back().epoch, 1.6);
}

// run.json names what ran, a restart's share included.
TEST(PrepareTest, TheAttentionThatRanIsNamed) {
  struct Case {
    std::function<void(JobFolder&)> change;
    const char *forward, *backward;
  };
  const char* const kAten = "scaled_dot_product_attention";
  const Case cases[] = {
      {[](JobFolder&) {}, "flash", "blocked"},
      {[](JobFolder& f) { f.training()["packing"] = true; }, "flash", "flash"},
      {[](JobFolder& f) { f.job()["gradients"] = "autograd"; }, kAten, kAten},
  };
  for (const Case& c : cases) {
    JobFolder folder("prepare_attention");
    c.change(folder);
    const auto attention = [&] {
      return json::parse(
          *base::ReadFile(folder.path() / "out/run.json"))["attention"];
    };
    RecordingObserver first, second, third;
    first.stop_at_stage = "evaluating";  // before the first step
    ASSERT_TRUE(Train(folder, "out", first).ok());
    EXPECT_TRUE(attention()["training"]["forward"].is_null());
    ASSERT_TRUE(Train(folder, "out", second).ok());
    ASSERT_TRUE(Train(folder, "out", third).ok());  // no step again
    EXPECT_EQ(attention()["training"]["forward"], c.forward);
    EXPECT_EQ(attention()["training"]["backward"], c.backward);
    EXPECT_EQ(attention()["evaluation"], kAten);
  }
}

json ConfigOf(const JobFolder& folder, const std::string& out) {
  return json::parse(
      *base::ReadFile(folder.path() / out / "adapter/adapter_config.json"));
}

TEST(PrepareTest, AResultNamesItsModelAsTheJobDoes) {
  JobFolder folder("prepare_model_id");
  folder.training()["max_steps"] = 1;
  folder.training()["eval_steps"] = 0;
  const fs::path snapshot =
      folder.path() / "hub" / "models--me--tiny" / "snapshots" / "abc123";
  fs::create_directories(snapshot.parent_path());
  fs::copy(testing_support::Golden("smollm", "model"), snapshot);
  const fs::path refs = snapshot.parent_path().parent_path() / "refs";
  fs::create_directories(refs);
  std::ofstream(refs / "main") << "abc123";
  RecordingObserver observer;
  const auto name_of = [&](const std::string& out) {
    auto result = Train(folder, out, observer);
    EXPECT_TRUE(result.ok()) << result.status();
    const json config = ConfigOf(folder, out);
    return std::pair{config["base_model_name_or_path"], config["revision"]};
  };
  setenv("HF_HUB_CACHE", (folder.path() / "hub").c_str(), 1);
  folder.job()["model"] = "me/tiny";  // by hand
  EXPECT_EQ(name_of("id"), (std::pair<json, json>{"me/tiny", "abc123"}));
  unsetenv("HF_HUB_CACHE");
  const json run =
      json::parse(*base::ReadFile(folder.path() / "id" / "run.json"));
  EXPECT_EQ(run["model"]["folder"], snapshot.string());
  EXPECT_EQ(run["model"]["name"], "me/tiny");
  folder.job()["model"] = snapshot.string();
  EXPECT_EQ(name_of("path"),
            (std::pair<json, json>{snapshot.string(), nullptr}));
  folder.job()["model_id"] = "me/tiny";  // as mpsd hands it on
  EXPECT_EQ(name_of("mpsd"), (std::pair<json, json>{"me/tiny", "abc123"}));
}

}  // namespace
}  // namespace mpsd::train
