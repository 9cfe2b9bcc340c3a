// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/prometheus/job_metrics_fixture.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

// What takes how long, and since when.
using JobMetricsTimeTest = JobMetricsFixture;

TEST_F(JobMetricsTimeTest, SaysWhatKeepsJobsFromTraining) {
  using jobs::PauseReason;
  EXPECT_THAT(Text(), HasSubstr("mpsd_paused{reason=\"battery\"} 0\n"));
  exported_metrics_.Paused({PauseReason::kBattery});
  exported_metrics_.Paused({PauseReason::kBattery, PauseReason::kThermal});
  EXPECT_THAT(Text(), HasSubstr("mpsd_paused{reason=\"battery\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_paused{reason=\"thermal\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_pauses_total{reason=\"battery\"} 1\n"));
  exported_metrics_.Paused({});
  exported_metrics_.Paused({PauseReason::kBattery});
  EXPECT_THAT(Text(), HasSubstr("mpsd_pauses_total{reason=\"battery\"} 2\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_paused{reason=\"thermal\"} 0\n"));
}

TEST_F(JobMetricsTimeTest, SaysWhatHoldsTheQueue) {
  EXPECT_THAT(Text(), HasSubstr("mpsd_held{reason=\"storage\"} 0\n"));
  exported_metrics_.Held({{jobs::HoldReason::kDisk, "full"}});
  EXPECT_THAT(Text(), HasSubstr("mpsd_held{reason=\"disk\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_held{reason=\"machine\"} 0\n"));
  exported_metrics_.Held({});
  EXPECT_THAT(Text(), HasSubstr("mpsd_held{reason=\"disk\"} 0\n"));
}

TEST_F(JobMetricsTimeTest, AnHourOfPauseAndHoldIsSeenWithinTheHour) {
  exported_metrics_.Paused({jobs::PauseReason::kQuietHours});
  exported_metrics_.Held({{jobs::HoldReason::kDisk, "full"}});
  const std::string paused = "mpsd_paused_seconds_total{reason=";
  for (int minutes : {0, 30, 60}) {
    const std::string seconds = " " + std::to_string(minutes * 60) + "\n";
    EXPECT_THAT(Text(), HasSubstr(paused + "\"quiet_hours\"}" + seconds));
    EXPECT_THAT(Text(), HasSubstr("mpsd_held_seconds_total{reason=\"disk\"}" +
                                  seconds));
    clock_.Advance(absl::Minutes(30));
    clock_.SetBack(absl::Hours(5));  // the wall clock decides nothing
  }
  exported_metrics_.Paused({});
  exported_metrics_.Held({{jobs::HoldReason::kDisk, "fuller"}});
  clock_.Advance(absl::Minutes(30));
  EXPECT_THAT(Text(), HasSubstr(paused + "\"quiet_hours\"} 5400\n"));
  EXPECT_THAT(Text(), HasSubstr(paused + "\"battery\"} 0\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_held_seconds_total{reason=\"disk\"} 7200\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_holds_total{reason=\"disk\"} 1\n"));
}

TEST_F(JobMetricsTimeTest, TellsWhatAWorkerSpendsItsTimeOn) {
  exported_metrics_.JobStarted(Started("J1"));
  exported_metrics_.DeviceOpened("J1", "mps");
  clock_.Advance(absl::Seconds(20));
  exported_metrics_.StageBegan("training");
  exported_metrics_.StageBegan("evaluating");
  clock_.Advance(absl::Seconds(5));
  exported_metrics_.Evaluated("J1", "mps", {0, 3, 0, 5, {}});
  clock_.Advance(absl::Seconds(10));
  jobs::Progress step = Step();
  step.seconds = 10;
  step.data_wait_seconds = 4;
  exported_metrics_.StepFinished("J1", step);
  clock_.Advance(absl::Seconds(3));
  exported_metrics_.CheckpointWritten("J1", "mps", 3);
  exported_metrics_.WorkerHalts(true);
  clock_.Advance(absl::Hours(1));
  const std::string phase = "mpsd_phase_seconds_total{device=\"mps\",phase=";
  EXPECT_THAT(Text(), HasSubstr(phase + "\"load\"} 20\n"));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"train\"} 6\n"));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"data_wait\"} 4\n"));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"evaluate\"} 5\n"));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"save\"} 3\n"));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"paused\"} 3600\n"));
  exported_metrics_.WorkerHalts(false);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Text(), HasSubstr(phase + "\"train\"} 7\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_start_seconds_sum{device=\"mps\"} 35\n"));
}

TEST_F(JobMetricsTimeTest, TheQueuesEtaIsOfAllJobsOrNone) {
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_queue_eta_seconds ")));
  exported_metrics_.QueueChanged({});
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_eta_seconds 0\n"));
  exported_metrics_.JobStarted(Started("J1"));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_queue_eta_seconds ")));
  jobs::Progress step = Step();
  step.eta_seconds = 100;
  exported_metrics_.StepFinished("J1", step);
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_eta_seconds 100\n"));
  jobs::QueueDepth depth;
  depth.time_left = absl::Hours(1);
  exported_metrics_.QueueChanged(depth);
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_eta_seconds 3700\n"));
  depth.time_left.reset();
  exported_metrics_.QueueChanged(depth);
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_queue_eta_seconds ")));
}

TEST_F(JobMetricsTimeTest, WaitsAndCheckpointsAreHistograms) {
  exported_metrics_.JobStarted(Started("J1", absl::Seconds(3)));
  exported_metrics_.CheckpointWritten("J1", "cpu", 0.3);
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_queue_wait_seconds_sum 3\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_queue_wait_seconds_bucket{le=\"5\"} 1\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_checkpoint_seconds_sum{device=\"cpu\"} 0.3\n"));
}

TEST_F(JobMetricsTimeTest, StepsFromTwentyMillisecondsToThirteenMinutesDiffer) {
  jobs::Progress fast = Step(), slow = Step();
  fast.seconds = 0.015;
  slow.seconds = 13 * 60;
  exported_metrics_.StepFinished("J1", fast);
  exported_metrics_.StepFinished("J1", slow);
  const std::string bucket = "mpsd_step_seconds_bucket{device=\"mps\",le=";
  EXPECT_THAT(Text(), HasSubstr(bucket + "\"0.01\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr(bucket + "\"0.02\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr(bucket + "\"400\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr(bucket + "\"800\"} 2\n"));
}

TEST_F(JobMetricsTimeTest, TellsWhenTheLastStepAndCheckpointCame) {
  const std::string labels = "{device=\"mps\",job_id=\"J1\"} ";
  exported_metrics_.CheckpointWritten("J1", "mps", 1);
  clock_.Advance(absl::Seconds(7));
  exported_metrics_.StepFinished("J1", Step());
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_last_checkpoint_timestamp_seconds" +
                                labels + "1767225600\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_last_step_timestamp_seconds" +
                                labels + "1767225607\n"));
}

TEST_F(JobMetricsTimeTest, TheOldestQueuedJobGrowsOlderBetweenScrapes) {
  exported_metrics_.QueueChanged({{{0, 1}}, {{"ada", 1}}, clock_.Now()});
  clock_.Advance(absl::Seconds(30));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_oldest_age_seconds 30\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_owner_jobs{owner=\"ada\"} 1\n"));
}

}  // namespace
}  // namespace mpsd::prometheus
