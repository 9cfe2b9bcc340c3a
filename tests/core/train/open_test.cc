// SPDX-License-Identifier: Apache-2.0
// What a device and a model's folder decide of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/lora/peft_folder.h"
#include "core/spec/targets.h"
#include "core/train/stages.h"
#include "tests/core/train/lm_job.h"

namespace mpsd::train {
namespace {

using nlohmann::json;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

absl::StatusOr<Opened> OpenJob(JobFolder& folder, const RunContext& context,
                               Observer& observer) {
  auto spec = spec::ParseTrainSpec(folder.job().dump(), "job.json");
  if (!spec.ok()) return spec.status();
  return Open(spec::ResolvePaths(*std::move(spec), folder.path().string()),
              context, observer);
}

TEST(OpenTest, TheSpecIsFilledIn) {
  JobFolder folder("open_spec");
  RecordingObserver observer;
  const RunContext context = {folder.path() / "out", folder.path(), "", "", {}};
  auto opened = OpenJob(folder, context, observer);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->device->name(), "cpu");
  EXPECT_EQ(observer.devices, std::vector<std::string>{"cpu"});
  EXPECT_EQ(opened->spec->lora,
            spec::EffectiveLora(opened->spec->lora, opened->config));
  folder.job()["adapter"] =
      testing_support::Golden("smollm", "adapter").string();
  folder.job().erase("lora");
  auto started = OpenJob(folder, context, observer);
  ASSERT_TRUE(started.ok()) << started.status();
  const auto adapter = lora::ReadPeftConfig(started->spec->adapter);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(started->spec->lora.r, adapter->r);
  EXPECT_TRUE(observer.stages.empty());
}

struct Case {
  std::function<void(JobFolder&)> spoil;
  absl::StatusCode code;
  const char* message;
};

TEST(OpenTest, WhatDoesNotFitTheModelIsSaidBeforeDataAreRead) {
  const Case cases[] = {
      {[](JobFolder& f) { f.job()["model"] = "/no/such/model"; },
       absl::StatusCode::kNotFound, "/no/such/model"},
      {[](JobFolder& f) { f.job()["lora"]["target_modules"] = {"q_porj"}; },
       absl::StatusCode::kInvalidArgument, "q_porj"},
      {[](JobFolder& f) {
         f.job()["adapter"] =
             testing_support::Golden("smollm", "adapter").string();
         f.job()["lora"]["r"] = 2;
       },
       absl::StatusCode::kInvalidArgument, "leave lora out"}};
  for (const Case& c : cases) {
    JobFolder folder("open_refused");
    c.spoil(folder);
    RecordingObserver observer;
    const absl::Status status = Train(folder, "out", observer).status();
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(c.message));
    EXPECT_TRUE(observer.stages.empty());
  }
}

TEST(OpenTest, AMissingDeviceSaysWhatItNeeds) {
  if (device::OpenMps().ok()) return;  // a Mac: nothing is missing
  JobFolder folder("open_device");
  folder.job()["device"] = "mps";
  RecordingObserver observer;
  const absl::Status status = Train(folder, "out", observer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("Apple-silicon"));
}

TEST(OpenTest, FieldsThatChangeNothingAreSaid) {
  JobFolder folder("open_idle");
  folder.training()["early_stopping_threshold"] = 0.5;
  folder.training()["max_length"] = 4096;
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_THAT(observer.warnings(),
              testing::IsSupersetOf(
                  {testing::HasSubstr("early_stopping_threshold has no effect"),
                   testing::HasSubstr("max_length is 4096, the model's "
                                      "max_position_embeddings")}));
}

TEST(OpenTest, APatternThatMatchesNothingIsRefused) {
  JobFolder folder("open_pattern");
  folder.job()["lora"]["rank_pattern"] = {{"q_porj", 2}};
  RecordingObserver observer;
  const auto result = Train(folder, "out", observer);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              testing::HasSubstr("lora.rank_pattern: \"q_porj\" matches no"));
}

json ConfigOf(const JobFolder& folder, const std::string& out) {
  return json::parse(
      *base::ReadFile(folder.path() / out / "adapter/adapter_config.json"));
}

// As PeftModel.from_pretrained(is_trainable=True) keeps it.
TEST(OpenTest, AStartFromAnAdapterKeepsItsDropout) {
  JobFolder folder("open_start_dropout");
  folder.training()["max_steps"] = 4;
  RecordingObserver observer, as_told, as_it_is, without;
  ASSERT_TRUE(Train(folder, "one", observer).ok());
  folder.job()["adapter"] = (folder.path() / "one" / "adapter").string();
  folder.job().erase("lora");
  ASSERT_TRUE(Train(folder, "kept", as_it_is).ok());
  EXPECT_EQ(ConfigOf(folder, "kept")["lora_dropout"], 0.1);
  folder.job()["lora"] = {{"lora_dropout", 0.1}};
  ASSERT_TRUE(Train(folder, "told", as_told).ok());
  EXPECT_EQ(AdapterBytes(folder, "kept"), AdapterBytes(folder, "told"));
  folder.job()["lora"] = {{"lora_dropout", 0}};
  ASSERT_TRUE(Train(folder, "without", without).ok());
  EXPECT_EQ(ConfigOf(folder, "without")["lora_dropout"], 0.0);
  EXPECT_NE(AdapterBytes(folder, "kept"), AdapterBytes(folder, "without"));
}

}  // namespace
}  // namespace mpsd::train
