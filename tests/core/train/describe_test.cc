// SPDX-License-Identifier: Apache-2.0
#include "core/train/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/spec/targets.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

using testing::HasSubstr;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

absl::StatusOr<Described> DescribeJob(JobFolder& folder) {
  auto spec = spec::ParseTrainSpec(folder.job().dump(), "job.json");
  if (!spec.ok()) return spec.status();
  RecordingObserver observer;
  return Describe(spec::ResolvePaths(*std::move(spec), folder.path().string()),
                  observer);
}

// A device that this machine lacks is none of its business.
TEST(Describe, NeedsNoDevice) {
  JobFolder folder("describe");
  folder.job()["device"] = "mps";
  const auto job = DescribeJob(folder);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->config.model_type, "llama");
  EXPECT_EQ(job->model_folder,
            testing_support::Golden("smollm", "model").string());
  EXPECT_EQ(job->spec->lora, spec::EffectiveLora(job->spec->lora, job->config));
}

TEST(Describe, AnAdapterDecidesWhatIsTrained) {
  JobFolder folder("describe_adapter");
  folder.job()["adapter"] =
      testing_support::Golden("smollm", "adapter").string();
  folder.job().erase("lora");
  const auto job = DescribeJob(folder);
  ASSERT_TRUE(job.ok()) << job.status();
  folder.job()["lora"]["r"] = 77;
  EXPECT_THAT(std::string(DescribeJob(folder).status().message()),
              HasSubstr("leave lora out"));
}

TEST(Describe, WhatDoesNotFitTheModelIsRefused) {
  JobFolder folder("describe_refused");
  folder.job()["lora"]["target_modules"] = {"q_porj"};
  EXPECT_THAT(std::string(DescribeJob(folder).status().message()),
              HasSubstr("q_porj"));
  folder.job()["model"] = folder.path() / "none";
  EXPECT_TRUE(absl::IsNotFound(DescribeJob(folder).status()));
  std::filesystem::create_directories(folder.path() / "none");
  std::ofstream(folder.path() / "none" / "config.json") << "{";
  EXPECT_TRUE(absl::IsInvalidArgument(DescribeJob(folder).status()));
}

}  // namespace
}  // namespace mpsd::train
