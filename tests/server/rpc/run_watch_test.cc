// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/records.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"

namespace mpsd::records {
namespace {

using jobs::ExitReason;
using jobs::PauseReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunWatchTest : public testing::Test {
 protected:
  RunWatchTest() {
    RunWatch::Options options;
    options.torch_version = "2.6";
    options.version = "0.1.0";
    options.on_end = [this] { ++ends_; };
    watch_ = std::make_unique<RunWatch>(std::move(options), next_, clock_);
  }
  void Start(const std::string& id = "A") {
    jobs::StartedJob job;
    job.id = id;
    job.queue_wait = absl::Seconds(4);
    watch_->JobStarted(job);
  }
  void Step(double seconds, std::optional<int64_t> footprint = std::nullopt) {
    clock_.Advance(absl::Seconds(seconds));
    jobs::Progress progress;
    progress.step = ++step_;
    progress.total_steps = 100;
    progress.seconds = seconds;
    progress.device = "mps";
    progress.memory.footprint_bytes = footprint;
    watch_->StepFinished("A", progress);
  }
  v1::RunAttempt Take() {
    const std::vector<SeenAttempt> rows = watch_->TakeChanged(true);
    EXPECT_THAT(rows, SizeIs(1));
    v1::RunAttempt attempt;
    if (!rows.empty()) {
      EXPECT_EQ(rows[0].job_id, "A");
      attempt = rows[0].sum;
    }
    return attempt;
  }

  fakes::FakeClock clock_;
  fakes::FakeExportedMetrics next_;
  int ends_ = 0, step_ = 0;
  std::unique_ptr<RunWatch> watch_;
};

TEST_F(RunWatchTest, TellsTheLargestFootprint) {
  Start();
  Step(1);
  Step(1, 0);  // the worker could not read it
  EXPECT_FALSE(Take().has_peak_footprint_bytes());
  for (const int64_t bytes : {500, 900, 700}) Step(1, bytes);
  EXPECT_EQ(Take().peak_footprint_bytes(), 900);
}

TEST_F(RunWatchTest, TellsHowLongWhatTook) {
  Start();
  watch_->StageBegan("loading model");
  clock_.Advance(absl::Seconds(8));
  Step(5);
  for (int i = 0; i < 20; ++i) Step(i == 7 ? 60 : 1);
  clock_.Advance(absl::Seconds(3));
  jobs::Evaluated evaluated;
  evaluated.seconds = 3;
  watch_->Evaluated("A", "mps", evaluated);
  clock_.Advance(absl::Seconds(2));
  watch_->CheckpointWritten("A", "mps", 2);
  watch_->WorkerExited(ExitReason::kDone);
  const v1::RunAttempt attempt = Take();
  EXPECT_EQ(attempt.exit_reason(), "Done");
  EXPECT_EQ(attempt.device(), "mps");
  EXPECT_EQ(attempt.torch_version(), "2.6");
  EXPECT_EQ(attempt.daemon_version(), "0.1.0");
  EXPECT_EQ(attempt.steps(), 21);
  const v1::RunDurations& took = attempt.durations();
  EXPECT_DOUBLE_EQ(took.queue_seconds(), 4);
  EXPECT_DOUBLE_EQ(took.load_seconds(), 8);
  EXPECT_DOUBLE_EQ(took.first_step_seconds(), 5);
  EXPECT_DOUBLE_EQ(took.steady_step_seconds(), 1);  // the slow one is no rule
  EXPECT_DOUBLE_EQ(took.train_seconds(), 5 + 19 + 60);
  EXPECT_DOUBLE_EQ(took.evaluation_seconds(), 3);
  EXPECT_DOUBLE_EQ(took.save_seconds(), 2);
  EXPECT_EQ(attempt.end_time().seconds() - attempt.start_time().seconds(),
            8 + 5 + 19 + 60 + 3 + 2);
}

TEST_F(RunWatchTest, WhatIsNotToldIsAbsent) {
  Start();
  watch_->HostRead({});
  watch_->WorkerExited(ExitReason::kMachine);
  const v1::RunAttempt attempt = Take();
  EXPECT_EQ(attempt.conditions().readings(), 1);
  EXPECT_THAT(attempt.conditions().power_sources(), IsEmpty());
  EXPECT_FALSE(attempt.conditions().has_low_power_mode());
  EXPECT_FALSE(attempt.conditions().has_most_swap_bytes());
  EXPECT_FALSE(attempt.conditions().has_user_active_seconds());
  EXPECT_FALSE(attempt.conditions().has_gpu_utilization_ratio());
  EXPECT_FALSE(attempt.durations().has_load_seconds());
  EXPECT_FALSE(attempt.durations().has_first_step_seconds());
  EXPECT_FALSE(attempt.durations().has_steady_step_seconds());
  EXPECT_FALSE(attempt.has_pauses());
}

TEST_F(RunWatchTest, SeesTheMachine) {
  host::Reading reading;
  reading.power_source = host::PowerSource::kMains;
  reading.thermal = host::Thermal::kNominal;
  watch_->HostRead(reading);  // nothing runs
  Start();
  reading.memory_pressure = host::MemoryPressure::kNormal;
  reading.battery_ratio = 0.9;
  reading.low_power_mode = false;
  reading.swap_used_bytes = 10;
  reading.gpu_utilization_ratio = 0.5;
  reading.gpu_resets = 7;
  reading.user_idle_seconds = 5;
  watch_->HostRead(reading);
  clock_.Advance(absl::Seconds(5));
  reading.power_source = host::PowerSource::kBattery;
  reading.thermal = host::Thermal::kHeavy;
  reading.battery_ratio = 0.4;
  reading.low_power_mode = true;
  reading.swap_used_bytes = 90;
  reading.gpu_utilization_ratio = 1.0;
  reading.gpu_resets = 8;
  watch_->HostRead(reading);
  clock_.Advance(absl::Hours(9));  // the machine slept
  reading.low_power_mode = false;
  reading.swap_used_bytes = 20;
  watch_->HostRead(reading);
  clock_.Advance(absl::Seconds(5));
  reading.user_idle_seconds = 500;
  watch_->HostRead(reading);
  const v1::RunAttempt attempt = Take();
  const v1::RunConditions& seen = attempt.conditions();
  EXPECT_EQ(seen.readings(), 4);
  EXPECT_THAT(seen.power_sources(), ElementsAre("mains", "battery"));
  EXPECT_THAT(seen.thermal_levels(), ElementsAre("nominal", "heavy"));
  EXPECT_THAT(seen.memory_pressures(), ElementsAre("normal"));
  EXPECT_DOUBLE_EQ(seen.least_battery_ratio(), 0.4);
  EXPECT_TRUE(seen.low_power_mode());
  EXPECT_EQ(seen.first_swap_bytes(), 10);
  EXPECT_EQ(seen.most_swap_bytes(), 90);
  EXPECT_DOUBLE_EQ(seen.user_active_seconds(), 65);
  EXPECT_DOUBLE_EQ(seen.gpu_utilization_ratio(), 0.875);
  EXPECT_EQ(seen.gpu_resets(), 1);
  EXPECT_THAT(next_.readings, SizeIs(5));
}

TEST_F(RunWatchTest, CountsPausesByReason) {
  Start();
  Step(1);
  watch_->Paused({PauseReason::kBattery});
  watch_->WorkerHalts(true);
  clock_.Advance(absl::Seconds(10));
  watch_->Paused({PauseReason::kBattery, PauseReason::kThermal});
  clock_.Advance(absl::Seconds(20));
  watch_->Paused({});
  clock_.Advance(absl::Seconds(1));
  watch_->WorkerHalts(false);
  clock_.Advance(absl::Seconds(100));
  watch_->Paused({PauseReason::kUserActive});
  watch_->WorkerHalts(true);
  clock_.Advance(absl::Seconds(5));
  watch_->WorkerExited(ExitReason::kPreempted);
  const v1::RunAttempt attempt = Take();
  const v1::RunPauses& pauses = attempt.pauses();
  EXPECT_EQ(pauses.count(), 2);
  EXPECT_DOUBLE_EQ(pauses.seconds(), 36);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("battery"), 31);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("thermal"), 21);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("user_active"), 5);
}

TEST_F(RunWatchTest, ARunThatGoesOnIsGivenOutFromTimeToTime) {
  Start();
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
  Step(1);
  EXPECT_THAT(watch_->TakeChanged(), IsEmpty());
  Step(10);
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
  EXPECT_THAT(watch_->TakeChanged(true), IsEmpty());
  watch_->WorkerExited(ExitReason::kDone);
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
}

TEST_F(RunWatchTest, WhatCouldNotBeStoredComesAgain) {
  Start();
  Step(1);
  std::vector<SeenAttempt> rows = watch_->TakeChanged(true);
  watch_->Return(std::move(rows));
  rows = watch_->TakeChanged();
  EXPECT_THAT(rows, SizeIs(1));
  watch_->WorkerExited(ExitReason::kDone);
  // What is newer wins.
  watch_->Return(std::move(rows));
  rows = watch_->TakeChanged();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].sum.exit_reason(), "Done");
  watch_->Return(std::move(rows));
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
}

TEST_F(RunWatchTest, HandsOnEveryReport) {
  watch_->JobCounts({{jobs::State::kQueued, 3}});
  watch_->QueueChanged({});
  Start();
  watch_->DeviceOpened("A", "mps");
  watch_->StageBegan("loading");
  watch_->WorkerHalts(true);
  Step(1);
  watch_->Evaluated("A", "mps", {});
  watch_->CheckpointWritten("A", "mps", 1);
  watch_->WorkerExited(ExitReason::kDone);
  watch_->JobReturned(ExitReason::kPreempted);
  watch_->HostRead({});
  watch_->Paused({PauseReason::kBattery});
  watch_->Held({});
  watch_->JobEnded("A", jobs::State::kSucceeded);
  watch_->JobDeleted("A");
  EXPECT_EQ(next_.counts.at(jobs::State::kQueued), 3);
  EXPECT_THAT(next_.started, SizeIs(1));
  EXPECT_THAT(next_.devices, ElementsAre("mps"));
  EXPECT_THAT(next_.stages, ElementsAre("loading"));
  EXPECT_THAT(next_.halting, ElementsAre(true));
  EXPECT_EQ(next_.steps, 1);
  EXPECT_THAT(next_.eval_devices, SizeIs(1));
  EXPECT_THAT(next_.checkpoint_jobs, SizeIs(1));
  EXPECT_THAT(next_.exits, SizeIs(1));
  EXPECT_THAT(next_.returned, SizeIs(1));
  EXPECT_THAT(next_.readings, SizeIs(1));
  EXPECT_THAT(next_.paused, SizeIs(1));
  EXPECT_THAT(next_.ended, SizeIs(1));
  EXPECT_THAT(next_.deleted, SizeIs(1));
  EXPECT_EQ(ends_, 1);
}

}  // namespace
}  // namespace mpsd::records
