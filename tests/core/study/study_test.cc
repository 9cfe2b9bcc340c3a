// SPDX-License-Identifier: Apache-2.0
#include "core/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::RecordingObserver;
using train::StopRequest;
using wire::JobKind;

absl::Status RunWith(const std::string& options) {
  const StudyJob job("study_options");
  RecordingObserver observer;
  return Run(JobKind::kProbe, options, job.Spec(), job.context(), observer)
      .status();
}

TEST(StudyTest, OptionsAreAnObjectWithKnownThresholds) {
  for (const char* wrong : {"", "[]", "7", "{"}) {
    EXPECT_EQ(RunWith(wrong).code(), absl::StatusCode::kInvalidArgument)
        << wrong;
  }
  const absl::Status unknown = RunWith(R"({"thresholds": {"no.such": 1}})");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), HasSubstr("no.such"));
}

TEST(StudyTest, TrainingIsNoStudy) {
  const StudyJob job("study_training");
  RecordingObserver observer;
  EXPECT_EQ(job.Study(JobKind::kTraining, nlohmann::json::object(), observer)
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(fs::exists(job.context().out_dir / "result.json"));
}

TEST(StudyTest, AResultIsWholeAndNamesItsKind) {
  const StudyJob job("study_result");
  fs::remove(job.context().out_dir);  // a job's first attempt has none
  RecordingObserver observer;
  auto result =
      job.Study(JobKind::kProbe, {{"warmup_steps", 1}, {"steps", 2}}, observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->stopped, StopRequest::kNone);
  EXPECT_EQ(result->output_kind, report::OutputKind::kStudy);
  EXPECT_EQ(result->output_path, job.context().out_dir.string());
  const nlohmann::json written = job.Result();
  EXPECT_TRUE(written.contains("probe"));
  EXPECT_THAT(written["verdict"].get<std::string>(), HasSubstr("VERDICT_"));
  ASSERT_FALSE(written["findings"].empty());
}

TEST(StudyTest, AStopWritesNothing) {
  for (const StopRequest kind : {StopRequest::kPreempt, StopRequest::kCancel}) {
    const StudyJob job("study_stop");
    RecordingObserver observer;
    observer.stop_after = 1;
    observer.stop_kind = kind;
    auto result =
        job.Study(JobKind::kProbe, nlohmann::json::object(), observer);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->stopped, kind);
    EXPECT_EQ(result->checkpoint_step, 0);
    EXPECT_TRUE(fs::is_empty(job.context().out_dir));
  }
}

}  // namespace
}  // namespace mpsd::study
