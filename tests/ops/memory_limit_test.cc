// SPDX-License-Identifier: Apache-2.0
// Jobs on a fake MPS that has too little memory, and rows that are too long for
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/file.h"
#include "core/train/run.h"
#include "core/worker/attempt.h"
#include "tests/core/job_folder.h"
#include "tests/ops/fake_mps.h"

namespace mpsd::ops {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Leaves so little memory to trials without checkpointing of more than
// `most_rows` that they cannot end.
class TightObserver : public testing_support::RecordingObserver {
 public:
  explicit TightObserver(int most_rows) : most_rows_(most_rows) {}
  ~TightObserver() override { SetMemoryLimit(kNoLimit); }
  void OnStage(const std::string& stage, double fraction) override {
    RecordingObserver::OnStage(stage, fraction);
    const std::string trying = "trying micro-batches of ";
    if (!stage.starts_with(trying)) return SetMemoryLimit(kNoLimit);
    const bool keeps_all = stage.find("checkpointing") == std::string::npos;
    const int rows = std::stoi(stage.substr(trying.size()));
    SetMemoryLimit(keeps_all && rows > most_rows_ ? LiveBytes() + (64 << 10)
                                                  : kNoLimit);
  }

 private:
  const int most_rows_;
};

class MemoryLimit : public testing::Test {
 protected:
  MemoryLimit() {
    InstallFakeMps();
    folder_.job()["device"] = "mps";
    folder_.job()["lora"]["lora_dropout"] = 0;
    folder_.training()["per_device_train_batch_size"] = 4;
    folder_.training()["auto_find_batch_size"] = true;
    folder_.training()["padding_free"] = false;
  }
  ~MemoryLimit() override { SetMemoryLimit(kNoLimit); }

  absl::Status Train(const std::string& out, train::Observer& observer) {
    const auto spec =
        *spec::ParseTrainSpec(*base::ReadFile(folder_.Write()), "job.json");
    train::RunContext context;
    context.out_dir = folder_.path() / out;
    context.cache_dir = folder_.path() / out;
    context.attempt = worker::Attempt;
    return train::Run(spec::ResolvePaths(spec, folder_.path().string()),
                      context, observer)
        .status();
  }
  json Choice(const std::string& out) {
    return json::parse(
        *base::ReadFile(folder_.path() / out / "run.json"))["micro_batch"];
  }

  testing_support::JobFolder folder_{"memory_limit"};
};

TEST_F(MemoryLimit, WhereNoRowFitsTheJobGoesOnWithCheckpointing) {
  testing_support::RecordingObserver free;
  ASSERT_TRUE(Train("free", free).ok());
  TightObserver tight(/*most_rows=*/0);
  const absl::Status s = Train("tight", tight);
  ASSERT_TRUE(s.ok()) << s;
  const json choice = Choice("tight");
  EXPECT_EQ(choice["trials"][0]["rows"], 1);
  EXPECT_EQ(choice["trials"][0]["out_of_memory"], true);
  EXPECT_EQ(choice["gradient_checkpointing"], true);
  // Its steps are those of a run that had the memory.
  ASSERT_EQ(tight.steps.size(), free.steps.size());
  for (size_t i = 0; i < free.steps.size(); ++i) {
    EXPECT_NEAR(tight.steps[i].loss, free.steps[i].loss, 1e-5) << i;
  }
}

TEST_F(MemoryLimit, WhatFitIsTakenWhenMoreRowsDoNot) {
  TightObserver tight(/*most_rows=*/1);
  const absl::Status s = Train("tight", tight);
  ASSERT_TRUE(s.ok()) << s;
  const json choice = Choice("tight");
  EXPECT_EQ(choice["trials"][1]["rows"], 2);
  EXPECT_EQ(choice["trials"][1]["out_of_memory"], true);
  EXPECT_TRUE(choice["rows"] == 1 || choice["gradient_checkpointing"] == true);
}

TEST_F(MemoryLimit, RowsThatAreTooLongForMpsAreRefusedInEveryMode) {
  folder_.training()["packing"] = true;
  folder_.training()["max_length"] = 32768;
  for (const bool automatic : {true, false}) {
    folder_.training()["auto_find_batch_size"] = automatic;
    folder_.training()["per_device_train_batch_size"] = 1;
    testing_support::RecordingObserver observer;
    const absl::Status s = Train("long", observer);
    EXPECT_TRUE(absl::IsInvalidArgument(s)) << s;
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("set max_length to 32766 at most"));
  }
}

// Micro-batches of evaluations are no larger than those of training, and no
// result knows of it.
TEST_F(MemoryLimit, EvaluationsAreCutToTheTokensOfTraining) {
  folder_.training()["auto_find_batch_size"] = false;
  folder_.training()["per_device_train_batch_size"] = 1;
  folder_.training()["per_device_eval_batch_size"] = 8;
  folder_.WriteRows("eval.jsonl", 13);
  testing_support::RecordingObserver on_mps, on_cpu;
  ASSERT_TRUE(Train("mps", on_mps).ok());
  folder_.job()["device"] = "cpu";
  ASSERT_TRUE(Train("cpu", on_cpu).ok());
  const auto batches = [](const testing_support::RecordingObserver& observer) {
    return std::count(observer.stages.begin(), observer.stages.end(),
                      "evaluating");
  };
  EXPECT_GT(batches(on_mps), 2 * batches(on_cpu));
  ASSERT_EQ(on_mps.evals.size(), on_cpu.evals.size());
  for (size_t i = 0; i < on_cpu.evals.size(); ++i) {
    EXPECT_EQ(on_mps.evals[i].label_tokens, on_cpu.evals[i].label_tokens);
    EXPECT_NEAR(on_mps.evals[i].eval_loss, on_cpu.evals[i].eval_loss, 2e-6)
        << i;
  }
}

}  // namespace
}  // namespace mpsd::ops
