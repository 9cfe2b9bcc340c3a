// SPDX-License-Identifier: Apache-2.0
#include "core/study/study.h"

#include "core/study/batch_sweep.h"
#include "core/study/device_comparison.h"
#include "core/study/measured_run.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using train::StopRequest;
using wire::JobKind;

absl::Status RunWith(const std::string& options) {
  const StudyJob job("study_options");
  RecordingObserver observer;
  return Run(JobKind::kProbe, options, job.Spec(), job.context(), observer)
      .status();
}

TEST(StudyTest, OptionsAreAnObjectWithKnownThresholdsAndTrainingIsNoStudy) {
  for (const char* wrong : {"", "[]", "7", "{"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(RunWith(wrong))) << wrong;
  }
  EXPECT_THAT(RunWith(R"({"thresholds": {"no.such": 1}})"),
              Fails(absl::StatusCode::kInvalidArgument, "no.such"));
  const StudyJob job("study_training");
  RecordingObserver observer;
  EXPECT_TRUE(absl::IsUnimplemented(
      job.Study(JobKind::kTraining, nlohmann::json::object(), observer)
          .status()));
  EXPECT_FALSE(fs::exists(job.context().out_dir / "result.json"));
}

TEST(StudyTest, AResultIsWholeAndNamesItsKind) {
  const StudyJob job("study_result");
  fs::remove(job.context().out_dir);  // a job's first attempt has no folder
  RecordingObserver observer;
  auto result = *job.Study(JobKind::kProbe, {{"warmup_steps", 1}, {"steps", 2}},
                           observer);
  EXPECT_EQ(result.stopped, StopRequest::kNone);
  EXPECT_EQ(result.output_kind, report::OutputKind::kStudy);
  EXPECT_EQ(result.output_path, job.context().out_dir.string());
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
        job.Study(JobKind::kProbe, nlohmann::json::object(), observer).value();
    EXPECT_EQ(result.stopped, kind);
    EXPECT_EQ(result.checkpoint_step, 0);
    EXPECT_TRUE(fs::is_empty(job.context().out_dir));
  }
}

class KeptPointsTest : public testing::Test {
 protected:
  KeptPoints Read(const std::string& key = "key") const {
    return KeptPoints::Read(file_, key);
  }

  const fs::path file_ = FreshFolder("kept_points") / "points.jsonl";
};

// A preemption is no fault of the point.
TEST_F(KeptPointsTest, AnAbandonedPointIsNotHeldAgainstIt) {
  {
    KeptPoints killed = Read();
    ASSERT_TRUE(killed.Begin(4).ok());
  }
  for (int i = 0; i < 3; ++i) {
    KeptPoints preempted = Read();
    EXPECT_EQ(preempted.Ends(4), 1);
    ASSERT_TRUE(preempted.Begin(4).ok());
    ASSERT_TRUE(preempted.Abandon().ok());
  }
  KeptPoints fresh = Read("other");
  ASSERT_TRUE(fresh.Begin(4).ok());
  ASSERT_TRUE(fresh.Abandon().ok());
  EXPECT_EQ(Read("other").Ends(4), 0);
}

TEST_F(KeptPointsTest, WhatIsNotOursIsDropped) {
  KeptPoints kept = Read();
  ASSERT_TRUE(kept.Add({{"batch", 1}}).ok());
  EXPECT_TRUE(Read("another version").points().empty());
  for (const char* spoilt : {"", "[]\n", "{\"key\": \"key\"}\n{\"batch\"",
                             "{\"key\": 7}\n", "\n\n", "{}\n"}) {
    std::ofstream(file_) << spoilt;
    EXPECT_TRUE(Read().points().empty()) << spoilt;
  }
}

data::LoaderOptions Options() {
  data::LoaderOptions options;
  options.batch_size = 2;
  return options;
}

bool Always() { return true; }

TEST(TimeLoader, TimesTheLoaderAlone) {
  const SlowSource source(8, absl::Milliseconds(3));
  const auto times = TimeLoader(source, Options(), 5, Always).value();
  ASSERT_EQ(times.size(), 5u);
  for (const double seconds : times) EXPECT_GE(seconds, 0.003);
}

TEST(TimeLoader, EndsWithTheSourceAndOnRequest) {
  SlowSource source(8, absl::ZeroDuration());
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(
      TimeLoader(source, Options(), 5, [&] { return ++asked < 3; }).status()));
  source.error = absl::NotFoundError("image 3");
  EXPECT_TRUE(
      absl::IsNotFound(TimeLoader(source, Options(), 5, Always).status()));
}

}  // namespace
}  // namespace mpsd::study
