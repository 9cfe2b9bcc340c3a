// SPDX-License-Identifier: Apache-2.0
// What is wrong with a job is said before it trains, and by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/train/trainer.h"
#include "tests/core/job_folder.h"

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
  JobFolder folder("setup_test");
  GetParam().spoil(folder);
  auto spec = spec::ParseTrainSpec(*base::ReadFile(folder.Write()), "job.json");
  ASSERT_TRUE(spec.ok()) << spec.status();
  RecordingObserver observer;
  TrainerOptions options;
  options.out_dir = folder.path() / "out";
  options.cache_dir = folder.path();
  Trainer trainer(spec::ResolvePaths(*spec, folder.path().string()), options,
                  observer);
  const absl::Status status = trainer.Run().status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr(GetParam().message));
  EXPECT_TRUE(observer.steps.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJobTest,
    testing::Values(
        Case{"model", [](JobFolder& f) { f.job()["model"] = "/no/such/model"; },
             absl::StatusCode::kNotFound, "/no/such/model"},
        Case{"target",
             [](JobFolder& f) {
               f.job()["lora"]["target_modules"] = {"q_porj"};
             },
             absl::StatusCode::kInvalidArgument, "q_porj"},
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
        Case{"lora_beside_adapter",
             [](JobFolder& f) {
               f.job()["adapter"] =
                   testing_support::Golden("smollm", "adapter").string();
               f.job()["lora"]["r"] = 2;
             },
             absl::StatusCode::kInvalidArgument, "leave lora out"},
        Case{"adapter",
             [](JobFolder& f) {
               f.job()["adapter"] =
                   testing_support::Golden("llama2", "adapter").string();
               f.job().erase("lora");
             },
             absl::StatusCode::kInvalidArgument, "has shape"}),
    [](const auto& info) { return info.param.name; });

TEST(SetupTest, AMissingDeviceSaysWhatItNeeds) {
  if (device::OpenMps().ok()) return;  // a Mac: nothing is missing
  JobFolder folder("setup_device");
  folder.job()["device"] = "mps";
  auto spec = spec::ParseTrainSpec(*base::ReadFile(folder.Write()), "job.json");
  RecordingObserver observer;
  Trainer trainer(spec::ResolvePaths(*std::move(spec), folder.path().string()),
                  {folder.path() / "out", folder.path(), "", "", {}}, observer);
  const absl::Status status = trainer.Run().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("Apple-silicon"));
}

// The base in four and in eight bits learns about what the whole one learns.
TEST(SetupTest, AQuantisedBaseIsTrainedOn) {
  std::vector<double> losses;
  for (const char* kind : {"none", "load_in_8bit", "load_in_4bit"}) {
    JobFolder folder("setup_quantised");
    if (kind != std::string("none")) {
      folder.job()["quantization_config"] = {{kind, true}};
    }
    auto spec =
        spec::ParseTrainSpec(*base::ReadFile(folder.Write()), "job.json");
    ASSERT_TRUE(spec.ok()) << spec.status();
    RecordingObserver observer;
    Trainer trainer(spec::ResolvePaths(*spec, folder.path().string()),
                    {folder.path() / "out", folder.path(), "", "", {}},
                    observer);
    const auto result = trainer.Run();
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
  const auto folder = testing_support::FreshFolder("setup_spoilt_model");
  std::filesystem::copy(testing_support::Golden("smollm", "model"), folder,
                        std::filesystem::copy_options::recursive |
                            std::filesystem::copy_options::overwrite_existing);
  const auto file = folder / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  return folder.string();
}

absl::Status StatusOf(JobFolder& folder, RecordingObserver& observer) {
  auto spec = spec::ParseTrainSpec(*base::ReadFile(folder.Write()), "job.json");
  if (!spec.ok()) return spec.status();
  Trainer trainer(spec::ResolvePaths(*spec, folder.path().string()),
                  {folder.path() / "out", folder.path(), "", "", {}}, observer);
  return trainer.Run().status();
}

// They are read side by side: which fault is met first is chance, which one is
// said is not.
TEST(SetupTest, FaultsOfDataAreSaidBeforeThoseOfWeights) {
  const std::string model = SpoiltModel();
  for (const int rows : {10, 3000}) {
    JobFolder folder("setup_order");
    folder.job()["model"] = model;
    folder.WriteRows("train.jsonl", rows);
    RecordingObserver observer;
    const absl::Status weights = StatusOf(folder, observer);
    EXPECT_EQ(weights.code(), absl::StatusCode::kInvalidArgument) << weights;
    EXPECT_THAT(std::string(weights.message()),
                testing::HasSubstr("model.safetensors"));
    std::ofstream(folder.path() / "train.jsonl", std::ios::app) << "{\n";
    const absl::Status data = StatusOf(folder, observer);
    EXPECT_EQ(data.code(), absl::StatusCode::kInvalidArgument) << data;
    EXPECT_THAT(std::string(data.message()),
                testing::HasSubstr("train.jsonl:"));
  }
}

TEST(SetupTest, StagesAreToldInOneOrder) {
  JobFolder folder("setup_stages");
  folder.training()["max_steps"] = 1;
  RecordingObserver observer;
  ASSERT_TRUE(StatusOf(folder, observer).ok());
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

}  // namespace
}  // namespace mpsd::train
