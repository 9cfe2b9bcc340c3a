// SPDX-License-Identifier: Apache-2.0
// Jobs with auto_find_batch_size, as a whole.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/tensorfile/safetensors.h"
#include "core/train/trainer.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

using nlohmann::json;
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
    const auto spec =
        *spec::ParseTrainSpec(*base::ReadFile(folder_.Write()), "job.json");
    TrainerOptions options;
    options.out_dir = folder_.path() / out;
    options.cache_dir = folder_.path();
    return Trainer(spec::ResolvePaths(spec, folder_.path().string()), options,
                   observer)
        .Run();
  }
  json Choice(const std::string& out) {
    return json::parse(
        *base::ReadFile(folder_.path() / out / "run.json"))["micro_batch"];
  }
  std::string Adapter(const std::string& out) {
    return *base::ReadFile(folder_.path() / out / "adapter" /
                           "adapter_model.safetensors");
  }
  // As an earlier run on this machine would have left it.
  void PutIntoCache(int64_t rows, bool checkpointing, bool selective = false) {
    const auto file = folder_.path() / "micro-batches.json";
    json plans = json::parse(*base::ReadFile(file));
    for (json& plan : plans) {
      plan["rows"] = rows;
      plan["gradient_checkpointing"] = checkpointing;
      plan["recompute_granularity"] = selective ? "selective" : "full";
    }
    ASSERT_TRUE(base::WriteFileAtomic(file, plans.dump()).ok());
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
    PutIntoCache(rows, checkpointing, selective);
    RecordingObserver observer;
    const std::string out = "rows" + std::to_string(rows);
    ASSERT_TRUE(Train(out, observer).ok());
    EXPECT_EQ(Choice(out)["from"], "cache");
    EXPECT_EQ(Choice(out)["rows"], rows);
    EXPECT_EQ(Choice(out)["accumulation"], 6 / rows);
    EXPECT_EQ(Choice(out)["gradient_checkpointing"], checkpointing);
    EXPECT_EQ(Choice(out).value("recompute_granularity", "none"),
              !checkpointing ? "none" : (selective ? "selective" : "full"));
    ExpectSameSteps(observer.steps, as_stated.steps);
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
  RecordingObserver first;
  ASSERT_TRUE(Train("tried", first).ok());
  PutIntoCache(3, false);
  RecordingObserver whole, part, rest;
  ASSERT_TRUE(Train("whole", whole).ok());
  part.stop_after = 2;
  ASSERT_TRUE(Train("parts", part).ok());
  PutIntoCache(1, true);
  ASSERT_TRUE(Train("parts", rest).ok());
  EXPECT_EQ(Choice("parts")["from"], "resumed");
  EXPECT_EQ(Choice("parts")["rows"], 3);
  EXPECT_EQ(Adapter("parts"), Adapter("whole"));
}

TEST_F(AutoBatchTest, CheckpointingThatTheJobStatesIsKept) {
  folder_.training()["auto_find_batch_size"] = true;
  folder_.training()["gradient_checkpointing"] = true;
  RecordingObserver observer;
  ASSERT_TRUE(Train("kept", observer).ok());
  EXPECT_EQ(Choice("kept")["gradient_checkpointing"], true);
}

}  // namespace
}  // namespace mpsd::train
