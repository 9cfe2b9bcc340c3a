// SPDX-License-Identifier: Apache-2.0
// How a queued job takes the device from a running one of lower priority.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_share_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class SchedulerPreemptionTest : public SchedulerShareFixture {};

TEST_F(SchedulerPreemptionTest, AHigherPriorityTakesTheDevice) {
  const std::string low = LongAtWork();
  const std::string high = SubmitFor("bob", 5);
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_EQ(Running(), low) << "until it has written its checkpoint";
  EXPECT_THAT(Notes(low), Contains("gives way to job " + high +
                                   " of priority 5: asked for a checkpoint"));
  EXPECT_THAT(Notes(high),
              Contains("takes the device from job " + low +
                       " of priority 0, once that job has written a "
                       "checkpoint"));
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  Worker().OnCheckpoint(At(20, "/out/step-20"));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  EXPECT_EQ(StateOf(low), State::kQueued);
  EXPECT_EQ(Stored(low).exit_reason, ExitReason::kPreempted);
  EXPECT_EQ(Stored(low).failures, 0);
  EXPECT_EQ(Stored(low).interruptions, 0);
  EXPECT_FALSE(Stored(low).behind);
  EXPECT_EQ(Stored(low).message,
            "gives way to job " + high +
                " of priority 5, goes on by itself: stopped at a checkpoint");
  EXPECT_THAT(exported_metrics_.returned, ElementsAre(ExitReason::kPreempted));
  scheduler_->Tick();
  EXPECT_EQ(Running(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenUnlessAsked) {
  preemption_ = {};
  Restart();
  LongAtWork();
  SubmitFor("bob", 5);
  After(absl::Minutes(10));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, AnEqualPriorityTakesNothing) {
  LongAtWork();
  SubmitFor("bob", 0);
  SubmitFor("bob", -1);
  After(absl::Minutes(10));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, TheLeastRunIsLeftToEachAttempt) {
  const std::string low = LongAtWork();
  SubmitFor("bob", 5);
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kPreempted);
  scheduler_->Tick();
  RunFor(absl::Minutes(1));
  ASSERT_EQ(Running(), low);
  const std::string next = SubmitFor("bob", 5);
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 1) << "it has just begun again";
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 1) << "it still loads";
  Worker().OnProgress(Step(21, 100'000));
  const absl::Time again = scheduler_->Tick();
  EXPECT_LE(again, clock_.Now() + absl::Seconds(1)) << "somebody waits";
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Minutes(4));
  EXPECT_EQ(launcher_.preempted, 2);
  launcher_.Exit(ExitReason::kPreempted);
  scheduler_->Tick();
  EXPECT_EQ(Running(), next);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenFromAJobThatLoads) {
  SubmitFor("ann");
  scheduler_->Tick();
  SubmitFor("bob", 5);
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenFromAJobThatIsAboutToEnd) {
  LongAtWork();
  SubmitFor("bob", 5);
  Worker().OnProgress(Step(99'990, 100'000));
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, AJobThatIsHeldBackTakesNothing) {
  const std::string low = LongAtWork();
  const std::string away = SubmitFor("bob", 5);
  files_.paths.clear();
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0) << "its file is away";
  files_.paths = {"/data/train.jsonl"};
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0) << "looked at again a little later";
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_THAT(Notes(low), Contains(HasSubstr(away)));
}

TEST_F(SchedulerPreemptionTest, AJobBeforeItsTimeTakesNothing) {
  preemption_.least_run = absl::ZeroDuration();
  Restart();
  const std::string high = SubmitFor("bob", 5);
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kCrashed);  // tried again in 10 s
  const std::string low = SubmitFor("ann");
  scheduler_->Tick();
  ASSERT_EQ(Running(), low);
  Worker().OnProgress(Step(1, 100'000));
  const absl::Time again = scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_LE(again, *Stored(high).not_before);
  After(absl::Seconds(10));
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(SchedulerPreemptionTest, OneThatWaitsBehindAllTakesNothing) {
  const std::string unlucky = SubmitFor("bob", 5);
  scheduler_->Tick();
  KillAndRestart();  // an interruption without a checkpoint
  ASSERT_TRUE(Stored(unlucky).behind);
  const std::string low = SubmitFor("ann");
  scheduler_->Tick();
  ASSERT_EQ(Running(), low);
  Worker().OnProgress(Step(1, 100'000));
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenWhileNobodyMayTrain) {
  machine_.reading.power_source = host::PowerSource::kMains;
  host_ = &machine_;
  pause_.on_battery = true;
  Restart();
  LongAtWork();
  machine_.reading.power_source = host::PowerSource::kBattery;
  SubmitFor("bob", 5);
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.paused, 1);
  EXPECT_EQ(launcher_.preempted, 0);
  Worker().OnHeld();
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NoPauseAsksAWorkerThatGivesWay) {
  machine_.reading.power_source = host::PowerSource::kMains;
  host_ = &machine_;
  pause_.on_battery = true;
  Restart();
  LongAtWork();
  SubmitFor("bob", 5);
  scheduler_->Tick();
  ASSERT_EQ(launcher_.preempted, 1);
  machine_.reading.power_source = host::PowerSource::kBattery;
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.paused, 0);
}

TEST_F(SchedulerPreemptionTest, ADrainGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  SubmitFor("bob", 5);
  scheduler_->Tick();
  const absl::Duration patient = launcher_.preempt_grace;
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 2);
  EXPECT_EQ(launcher_.preempt_grace, absl::Minutes(2));
  EXPECT_GE(patient, absl::Minutes(2));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(Stored(low).message, "stopped at a checkpoint");
}

TEST_F(SchedulerPreemptionTest, ACancelGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  const std::string high = SubmitFor("bob", 5);
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Cancel(low).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(low), State::kCancelled);
  scheduler_->Tick();
  EXPECT_EQ(Running(), high);
}

TEST_F(SchedulerPreemptionTest, WhereTheOtherIsGoneTheJobGoesOn) {
  const std::string low = LongAtWork();
  const std::string high = SubmitFor("bob", 5);
  scheduler_->Tick();
  ASSERT_EQ(launcher_.preempted, 1);
  ASSERT_TRUE(scheduler_->Cancel(high).ok());
  launcher_.Exit(ExitReason::kPreempted);
  scheduler_->Tick();
  EXPECT_EQ(Running(), low);
}

// A worker stops between two steps: an hour's step is not thrown away, and a
// worker that never answers is killed in the end.
TEST_F(SchedulerPreemptionTest, TheWorkerGetsTheTimeOfItsSteps) {
  SubmitFor("ann");
  scheduler_->Tick();
  Progress slow = Step(1, 1000);
  slow.seconds = 3600;
  Worker().OnProgress(slow);
  After(absl::Minutes(6));
  SubmitFor("bob", 5);
  scheduler_->Tick();
  ASSERT_EQ(launcher_.preempted, 1);
  EXPECT_EQ(launcher_.preempt_grace, absl::Hours(3) + absl::Minutes(2));
}

TEST_F(SchedulerPreemptionTest, NoStepIsBelievedWithoutBound) {
  for (const double seconds :
       {1e300, -5.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const std::string id = SubmitFor("ann");
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    Progress odd = Step(1, 1000);
    odd.seconds = seconds;
    Worker().OnProgress(odd);
    odd = Step(2, 1'000'000);
    odd.seconds = seconds;
    Worker().OnProgress(odd);
    const std::string high = SubmitFor("bob", 5);
    After(absl::Minutes(6));
    EXPECT_LE(launcher_.preempt_grace, absl::Hours(24) + absl::Minutes(2));
    EXPECT_GE(launcher_.preempt_grace, absl::ZeroDuration());
    ASSERT_TRUE(scheduler_->Cancel(high).ok());
    launcher_.Exit(ExitReason::kDone);
    scheduler_->Tick();
  }
}

TEST_F(SchedulerPreemptionTest, AKillDuringAPreemptionLosesNeither) {
  const std::string low = LongAtWork();
  Worker().OnCheckpoint(At(5, "/out/step-5"));
  const std::string high = SubmitFor("bob", 5);
  scheduler_->Tick();
  ASSERT_EQ(launcher_.preempted, 1);
  KillAndRestart();
  EXPECT_EQ(StateOf(low), State::kQueued);
  scheduler_->Tick();
  EXPECT_EQ(Running(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

}  // namespace
}  // namespace mpsd::jobs
