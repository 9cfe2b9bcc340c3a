// SPDX-License-Identifier: Apache-2.0
// What is wrong with a job is said before it trains, and by name.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/tensorfile/safetensors.h"
#include "core/train/stages.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {
namespace {

using testing_support::JobFolder;
using testing_support::RecordingObserver;

struct Case {
  const char* name;
  std::function<void(JobFolder&)> spoil;
  absl::StatusCode code;
  const char* message;
};

class BadJobTest : public testing::TestWithParam<Case> {};

TEST_P(BadJobTest, IsRefusedBeforeTheFirstStep) {
  JobFolder folder("load_test");
  GetParam().spoil(folder);
  RecordingObserver observer;
  const absl::Status status = Train(folder, "out", observer).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(GetParam().message));
  EXPECT_TRUE(observer.steps.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJobTest,
    testing::Values(
        Case{"row",
             [](JobFolder& f) {
               std::ofstream(f.path() / "train.jsonl", std::ios::app)
                   << "{\"txet\": 1}\n";
             },
             absl::StatusCode::kInvalidArgument, "train.jsonl:11"},
        Case{"eval_row",
             [](JobFolder& f) {
               std::ofstream(f.path() / "eval.jsonl") << "nonsense\n";
             },
             absl::StatusCode::kInvalidArgument, "eval.jsonl:1"},
        Case{"no_data",
             [](JobFolder& f) {
               std::filesystem::remove(f.path() / "train.jsonl");
             },
             absl::StatusCode::kNotFound, "train.jsonl"},
        Case{"adapter",
             [](JobFolder& f) {
               f.job()["adapter"] =
                   testing_support::Golden("llama2", "adapter").string();
               f.job().erase("lora");
             },
             absl::StatusCode::kInvalidArgument, "has shape"}),
    [](const auto& info) { return info.param.name; });

// The base in four and in eight bits learns about what the whole one learns.
TEST(LoadTest, AQuantisedBaseIsTrainedOn) {
  std::vector<double> losses;
  for (const char* kind : {"none", "load_in_8bit", "load_in_4bit"}) {
    JobFolder folder("load_quantised");
    if (kind != std::string("none")) {
      folder.job()["quantization_config"] = {{kind, true}};
    }
    RecordingObserver observer;
    const auto result = Train(folder, "out", observer);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before) << kind;
    losses.push_back(*result->eval_loss_before);
  }
  EXPECT_NE(losses[1], losses[0]);
  EXPECT_NEAR(losses[1], losses[0], 0.02 * losses[0]);
  EXPECT_NE(losses[2], losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 0.2 * losses[0]);
}

// A copy of the golden model whose weights end early.
std::string SpoiltModel() {
  const auto folder = testing_support::FreshFolder("load_spoilt_model");
  std::filesystem::copy(testing_support::Golden("smollm", "model"), folder,
                        std::filesystem::copy_options::recursive |
                            std::filesystem::copy_options::overwrite_existing);
  const auto file = folder / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  return folder.string();
}

// They are read side by side: which fault is met first is chance, which one is
// said is not.
TEST(LoadTest, FaultsOfDataAreSaidBeforeThoseOfWeights) {
  const std::string model = SpoiltModel();
  for (const int rows : {10, 3000}) {
    JobFolder folder("load_order");
    folder.job()["model"] = model;
    folder.WriteRows("train.jsonl", rows);
    RecordingObserver observer;
    const absl::Status weights = Train(folder, "out", observer).status();
    EXPECT_EQ(weights.code(), absl::StatusCode::kInvalidArgument) << weights;
    EXPECT_THAT(std::string(weights.message()),
                testing::HasSubstr("model.safetensors"));
    std::ofstream(folder.path() / "train.jsonl", std::ios::app) << "{\n";
    const absl::Status data = Train(folder, "out", observer).status();
    EXPECT_EQ(data.code(), absl::StatusCode::kInvalidArgument) << data;
    EXPECT_THAT(std::string(data.message()),
                testing::HasSubstr("train.jsonl:"));
  }
}

// The data decide which metrics a job has.
TEST(LoadTest, AnUnknownMetricIsSaidBeforeFaultsOfWeights) {
  JobFolder folder("load_metric");
  folder.job()["model"] = SpoiltModel();
  folder.training()["metric_for_best_model"] = "acuracy";
  RecordingObserver observer;
  const absl::Status status = Train(folder, "out", observer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("training.metric_for_best_model"));
}

TEST(LoadTest, WhatIsLoadedIsWhole) {
  JobFolder folder("load_whole");
  auto spec = spec::ParseTrainSpec(folder.job().dump(), "job.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  RecordingObserver observer;
  const RunContext context = {folder.path() / "out", folder.path(), "", "", {}};
  auto opened =
      Open(spec::ResolvePaths(*std::move(spec), folder.path().string()),
           context, observer);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const spec::TrainSpec* const stated = opened->spec.get();
  auto loaded = Load(*std::move(opened));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->spec.get(), stated);  // the one that the task refers to
  EXPECT_EQ(loaded->data.train->size(), 10);
  EXPECT_EQ(loaded->data.eval->size(), 3);
  EXPECT_THAT(loaded->weight_files, testing::ElementsAre("model.safetensors"));
  EXPECT_GT(loaded->trainable->parameters().element_count(), 0);
  EXPECT_EQ(&loaded->subject().network, loaded->network.get());
  EXPECT_EQ(loaded->shapes().step_rows(), 2);
}

TEST(LoadTest, StagesAreToldInOneOrder) {
  JobFolder folder("load_stages");
  folder.training()["max_steps"] = 1;
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  std::vector<std::string> stages;
  for (const std::string& stage : observer.stages) {
    if (stages.empty() || stage != stages.back()) stages.push_back(stage);
  }
  const auto at = [&](const char* stage) {
    return std::find(stages.begin(), stages.end(), stage) - stages.begin();
  };
  EXPECT_EQ(at("reading training data"), 0);
  EXPECT_EQ(at("reading evaluation data"), 2);
  EXPECT_EQ(at("loading model"), 4);
  EXPECT_EQ(at("training"), 5);
}

TEST(LoadTest, TensorsThatNothingUsedAreSaidAndKept) {
  JobFolder folder("load_unused");
  const auto model = folder.path() / "model";
  std::filesystem::copy(testing_support::Golden("smollm", "model"), model);
  auto file = *tensorfile::SafetensorsFile::Open(model / "model.safetensors");
  tensorfile::NamedTensors tensors = {
      {"model.layers.0.mystery", at::ones({3})}};
  for (const auto& [name, entry] : file->entries()) {
    tensors.emplace_back(name, *file->Load(name));
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(model / "model.safetensors", tensors).ok());
  folder.job()["model"] = model.string();
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_THAT(observer.warnings(),
              testing::Contains(testing::HasSubstr("model.layers.0.mystery")));
  const auto run = nlohmann::json::parse(
      *base::ReadFile(folder.path() / "out" / "run.json"));
  EXPECT_EQ(run["unused_tensors"]["names"],
            nlohmann::json({"model.layers.0.mystery"}));
  EXPECT_EQ(run["missing_tensors"]["count"], 0);
}

// That no row has a prompt is known when they are read.
TEST(LoadTest, ALossOnCompletionsThatNoRowHasIsSaid) {
  JobFolder folder("load_completion");
  folder.training()["max_steps"] = 1;
  folder.training()["completion_only_loss"] = false;
  const auto warning = testing::Contains(
      testing::HasSubstr("completion_only_loss has no effect: no row"));
  RecordingObserver texts, prompts;
  ASSERT_TRUE(Train(folder, "texts", texts).ok());
  EXPECT_THAT(texts.warnings(), warning);
  std::ofstream(folder.path() / "train.jsonl", std::ios::app)
      << R"({"prompt": "row", "completion": " word1"})"
      << "\n";
  ASSERT_TRUE(Train(folder, "prompts", prompts).ok());
  EXPECT_THAT(prompts.warnings(), testing::Not(warning));
}

TEST(LoadTest, AnAdapterCanBeTheStart) {
  JobFolder folder("load_start");
  RecordingObserver first, second;
  ASSERT_TRUE(Train(folder, "one", first).ok());
  folder.job()["adapter"] = (folder.path() / "one" / "adapter").string();
  folder.job().erase("lora");
  ASSERT_TRUE(Train(folder, "two", second).ok());
  EXPECT_NEAR(second.evals.front().eval_loss, first.evals.back().eval_loss,
              1e-6);
}

}  // namespace
}  // namespace mpsd::train
