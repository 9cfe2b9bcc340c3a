// SPDX-License-Identifier: Apache-2.0
#include "core/study/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RecordingObserver;
using wire::JobKind;

TEST(ProbeTest, MeasuresTheJobsOwnShape) {
  StudyJob job("probe_shape");
  job.training()["gradient_accumulation_steps"] = 3;
  RecordingObserver observer;
  auto ran = job.Study(JobKind::kProbe, {{"steps", 3}}, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  const json probe = job.Result()["probe"];
  EXPECT_EQ(probe["device"], "cpu");
  EXPECT_EQ(probe["warmup_steps"], 2);
  EXPECT_EQ(probe["steps"], 3);
  EXPECT_EQ(probe["step_rows"], 6);
  EXPECT_EQ(probe["micro_batch_rows"], 2);
  EXPECT_EQ(probe["gradients"], "explicit");
  EXPECT_GT(probe["longest_row_tokens"].get<int>(), 4);
  EXPECT_GT(probe["step_seconds"]["median"].get<double>(), 0);
  EXPECT_GT(probe["tokens_per_second"].get<double>(), 0);
  EXPECT_EQ(probe["peak_from"], "footprint");
  EXPECT_GT(probe["estimate"]["total_bytes"].get<int64_t>(), 0);
  EXPECT_GT(probe["memory_limit_bytes"].get<int64_t>(), 0);
  EXPECT_FALSE(probe.contains("out_of_memory"));
  EXPECT_EQ(job.Finding("probe.memory")["verdict"], "VERDICT_PASS");
  // Steps are told as those of the study.
  ASSERT_EQ(observer.steps.size(), 5u);
  EXPECT_EQ(observer.steps[0].total_steps, 5);
}

TEST(ProbeTest, AJobThatDoesNotFitFails) {
  struct Full : RecordingObserver {
    void OnStep(const report::Progress& step) override {
      RecordingObserver::OnStep(step);
      if (step.step == 2) throw std::bad_alloc();
    }
  };
  StudyJob job("probe_full");
  Full observer;
  auto ran = job.Study(JobKind::kProbe, json::object(), observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_TRUE(job.Result()["probe"]["out_of_memory"].get<bool>());
  EXPECT_EQ(job.Result()["verdict"], "VERDICT_FAIL");
  const json finding = job.Finding("probe.memory");
  EXPECT_EQ(finding["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(finding["advice"].get<std::string>(), HasSubstr("max_length"));
}

TEST(ProbeTest, AJobWithoutRoomToSpareWarns) {
  StudyJob job("probe_tight");
  RecordingObserver observer;
  auto ran = job.Study(
      JobKind::kProbe,
      {{"steps", 1}, {"thresholds", {{"probe.memory_share", 1e-9}}}}, observer);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(job.Finding("probe.memory")["verdict"], "VERDICT_WARN");
}

TEST(ProbeTest, OptionsHaveBounds) {
  StudyJob job("probe_bounds");
  RecordingObserver observer;
  for (const json& wrong :
       {json{{"steps", 1001}}, json{{"warmup_steps", -1}}}) {
    EXPECT_EQ(job.Study(JobKind::kProbe, wrong, observer).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(observer.steps.empty());
}

}  // namespace
}  // namespace mpsd::study
