// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

// How the Scheduler divides the device: fair share and the time of a job.
// How a queued job takes the device from a running one of lower priority.

namespace mpsd::jobs {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using SchedulerShareTest = SchedulerShareFixture;

TEST_F(SchedulerShareTest, AJobKnowsHowLongItHeldTheDevice) {
  const std::string id = StartFor("ann");
  After(absl::Seconds(90));
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(90))
      << "stored though its worker says nothing";
  clock_.Advance(absl::Seconds(10));
  launcher_.Exit(ExitReason::kCrashed);
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(100));
  After(absl::Seconds(10));
  ASSERT_EQ(Next(), id);
  clock_.Advance(absl::Seconds(5));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(Stored(id).device_time, absl::Seconds(105))
      << "all attempts, and not the wait between them";
}

TEST_F(SchedulerShareTest, TheRunningJobsUseCountsAsItRuns) {
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  scheduler_->Tick();
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  After(absl::Minutes(2));
  EXPECT_THAT(Order(), ElementsAre(first, other, second));
  EXPECT_NEAR(Used("ann"), 120, 1);
  EXPECT_EQ(board_->QueuePosition(second), 1);
}

TEST_F(SchedulerShareTest, TheDeviceGoesToWhoUsedItLeast) {
  const std::string a1 = SubmitFor("ann"), a2 = SubmitFor("ann"),
                    a3 = SubmitFor("ann"), b1 = SubmitFor("bob"),
                    b2 = SubmitFor("bob");
  scheduler_->Tick();
  std::vector<std::string> order;
  for (int i = 0; i < 5; ++i) {
    order.push_back(Running());
    RunFor(absl::Minutes(Running() == a1 ? 30 : 20));
  }
  EXPECT_THAT(order, ElementsAre(a1, b1, b2, a2, a3));
}

TEST_F(SchedulerShareTest, WithoutAHalfLifeItIsFirstComeFirstServed) {
  half_life_ = absl::ZeroDuration();
  Restart();
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  scheduler_->Tick();
  After(absl::Hours(2));
  EXPECT_THAT(Order(), ElementsAre(first, second, other));
  EXPECT_EQ(Stored(first).device_time, absl::Hours(2));
  EXPECT_THAT(*store_.OwnerUses(), IsEmpty());
}

TEST_F(SchedulerShareTest, WhatWasUsedSurvivesAKill) {
  const std::string first = SubmitFor("ann"), second = SubmitFor("ann"),
                    other = SubmitFor("bob");
  scheduler_->Tick();
  clock_.Advance(absl::Minutes(30));
  Worker().OnProgress(Step(1));  // stored
  clock_.Advance(absl::Minutes(10));
  KillAndRestart();
  EXPECT_EQ(Stored(first).device_time, absl::Minutes(30))
      << "until the last stored progress";
  EXPECT_NEAR(Used("ann"), 1800 * std::exp2(-10.0 / (24 * 60)), 1e-3);
  EXPECT_EQ(board_->QueuePosition(other), 0);
  EXPECT_EQ(board_->QueuePosition(second), 1);
}

TEST_F(SchedulerShareTest, TheRowAndItsOwnersUseAreStoredTogether) {
  const std::string id = StartFor("ann");
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  After(absl::Minutes(3));
  EXPECT_THAT(*store_.OwnerUses(), IsEmpty());
  store_.FailWith(absl::OkStatus());
  After(absl::Minutes(3));
  ASSERT_THAT(*store_.OwnerUses(), SizeIs(1));
  EXPECT_NEAR((*store_.OwnerUses())[0].seconds,
              absl::ToDoubleSeconds(Stored(id).device_time), 1);
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(6)) << "nothing is lost";
}

TEST_F(SchedulerShareTest, NoJumpOfTheWallClockChargesOrForgets) {
  const std::string id = StartFor("ann");
  After(absl::Minutes(30));
  clock_.SetBack(absl::Hours(-24 * 365));  // a year on
  After(absl::Minutes(2));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(32));
  EXPECT_NEAR(Used("ann"), 32 * 60, 3);
  clock_.SetBack(absl::Hours(2 * 24 * 365));
  After(absl::Minutes(2));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(34));
  EXPECT_NEAR(Used("ann"), 34 * 60, 6);
  KillAndRestart();
  EXPECT_NEAR(Used("ann"), 34 * 60, 6);
}

TEST_F(SchedulerShareTest, WhoUsedNothingForLongIsForgotten) {
  StartFor("ann");
  RunFor(absl::Hours(1));
  EXPECT_THAT(*store_.OwnerUses(), SizeIs(1));
  clock_.Advance(absl::Hours(24 * 20));
  StartFor("bob");
  EXPECT_THAT(*store_.OwnerUses(), IsEmpty());
}

TEST_F(SchedulerShareTest, APauseIsNotCharged) {
  pause_.settle = absl::ZeroDuration();
  PauseOnBattery();
  const std::string id = StartFor("ann");
  After(absl::Minutes(2));
  After(absl::Seconds(55));
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  clock_.Advance(absl::Seconds(10));
  Worker().OnHeld();
  After(absl::Minutes(5));
  After(absl::Seconds(5));
  PlugIn();
  EXPECT_EQ(launcher_.resumed, 1);
  Worker().OnResumed();
  After(absl::Minutes(4));
  EXPECT_EQ(Stored(id).device_time, absl::Minutes(7) + absl::Seconds(10));
}

TEST_F(SchedulerShareTest, TenThousandOwnersTakeTurns) {
  std::vector<std::string> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(SubmitFor(absl::StrCat("o", i)));
  for (int i = 0; i < 10'000; ++i) {
    board_->view().Charge(absl::StrCat("old", i), absl::Hours(1),
                          clock_.Monotonic(), clock_.Now());
  }
  scheduler_->Tick();
  for (const std::string& id : ids) {
    ASSERT_EQ(Running(), id);
    RunFor(absl::Minutes(1));
  }
}

TEST_F(SchedulerShareTest, HostileNamesOfOwnersAreButNames) {
  for (const std::string& owner :
       {std::string(), std::string("'; DROP TABLE jobs; --"),
        std::string("a\0b", 3), std::string(256, 'x'),
        std::string("\xff\xfe")}) {
    StartFor(owner);
    RunFor(absl::Minutes(3));
    EXPECT_NEAR(Used(owner), 0, 200);
  }
  EXPECT_THAT(*store_.OwnerUses(), SizeIs(5));
}

class JobTimeTest : public SchedulerShareFixture {
 protected:
  JobTimeTest() {
    time_limit_ = [this](const std::string& owner) {
      return owner == "boss" ? absl::InfiniteDuration() : limit_;
    };
    Restart();
  }
  absl::Duration limit_ = absl::Hours(2);
};

TEST_F(JobTimeTest, AJobThatHeldTheDeviceForSoLongHasFailed) {
  const std::string id = SubmitFor("ann");
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Minutes(1));
  Worker().OnProgress(Step(1, 100'000));
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
  clock_.Advance(absl::Hours(1) - absl::Seconds(3));
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(3));
  EXPECT_EQ(launcher_.preempted, 0);
  After(absl::Seconds(3));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Seconds(10));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  Worker().OnCheckpoint(At(50, "/out/step-50"));
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  const Job job = Stored(id);
  EXPECT_EQ(job.state, State::kFailed);
  EXPECT_EQ(job.exit_reason, ExitReason::kTimeLimit);
  EXPECT_EQ(job.attempt, 1);
  EXPECT_THAT(job.message, AllOf(HasSubstr("held the device for 2h"),
                                 HasSubstr("each job of ann may for 2h"),
                                 HasSubstr("[user.ann] job-hours"),
                                 HasSubstr("mpsctl retry " + id),
                                 HasSubstr("stopped at a checkpoint")));
  EXPECT_THAT(exported_metrics_.exits, ElementsAre(ExitReason::kTimeLimit));
}

TEST_F(JobTimeTest, TheLimitComesWhileTheClockGoesOn) {
  StartFor("ann");
  clock_.Flow(absl::Microseconds(1));
  After(absl::Hours(2));
  EXPECT_EQ(launcher_.preempted, 1);
  EXPECT_GT(scheduler_->Tick(), clock_.Now()) << "no tick follows at once";
}

TEST_F(JobTimeTest, ARetryGoesOnOnceTheLimitIsRaised) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  End(ExitReason::kPreempted);
  EXPECT_THAT(scheduler_->Retry(id),
              testing_support::Fails(absl::StatusCode::kResourceExhausted,
                                     "job-hours"));
  limit_ = absl::Hours(3);
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(Next(), id);
  After(absl::Minutes(59));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 2) << "three hours of all attempts";
}

TEST_F(JobTimeTest, AllAttemptsCountTogether) {
  const std::string id = StartFor("ann");
  clock_.Advance(absl::Minutes(90));
  launcher_.Exit(ExitReason::kCrashed);
  After(absl::Seconds(10));
  ASSERT_EQ(Next(), id);
  After(absl::Minutes(30));
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(JobTimeTest, ALoweredLimitEndsAJobThatWaits) {
  const std::string id = StartFor("ann");
  clock_.Advance(absl::Minutes(90));
  launcher_.Exit(ExitReason::kCrashed);
  const std::string other = SubmitFor("bob");
  limit_ = absl::Hours(1);
  After(absl::Seconds(10));
  ASSERT_EQ(Next(), other);
  End(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).exit_reason, ExitReason::kTimeLimit);
  EXPECT_THAT(exported_metrics_.ended, Contains(id));
  EXPECT_THAT(launcher_.requests, SizeIs(2));
}

TEST_F(JobTimeTest, AJobWithoutTimeWaitsForAStoreThatTakesNothing) {
  const std::string id = StartFor("ann");
  clock_.Advance(absl::Minutes(90));
  End(ExitReason::kCrashed);
  limit_ = absl::Hours(1);
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_EQ(StateOf(id), State::kQueued);
  store_.FailWith(absl::OkStatus());
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kFailed);
}

TEST_F(JobTimeTest, TheLimitMayDifferByOwner) {
  StartFor("boss");
  After(absl::Hours(1000));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(JobTimeTest, AJobThatIsDoneInTimeHasSucceeded) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  ASSERT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

TEST_F(JobTimeTest, ADrainGoesBeforeTheLimit) {
  const std::string id = StartFor("ann");
  After(absl::Hours(2));
  scheduler_->Drain();
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(StateOf(id), State::kQueued);
  scheduler_->Tick();
  Restart();
  ASSERT_TRUE(scheduler_->Recover().ok());
  scheduler_->Tick();
  EXPECT_EQ(StateOf(id), State::kFailed) << "no attempt is wasted";
  EXPECT_EQ(Stored(id).attempt, 1);
}

TEST_F(JobTimeTest, ANewLimitCountsForTheRunningJob) {
  StartFor("ann");
  After(absl::Hours(1));
  limit_ = absl::Minutes(30);
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(JobTimeTest, AChallengerWithoutTimeTakesNothing) {
  const std::string high = StartFor("bob", 5);
  clock_.Advance(absl::Minutes(90));
  launcher_.Exit(ExitReason::kCrashed);
  limit_ = absl::Hours(1);
  const std::string low = LongAtWork();
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_EQ(Running(), low);
  EXPECT_EQ(StateOf(high), State::kQueued);
}

using SchedulerPreemptionTest = SchedulerShareFixture;

TEST_F(SchedulerPreemptionTest, AHigherPriorityTakesTheDevice) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
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
                " of priority 5, resumes by itself: stopped at a checkpoint");
  EXPECT_THAT(exported_metrics_.returned, ElementsAre(ExitReason::kPreempted));
  EXPECT_EQ(Next(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

TEST_F(SchedulerPreemptionTest, TheLeastRunIsLeftToEachAttempt) {
  const std::string low = LongAtWork();
  Challenge();
  End(ExitReason::kPreempted);
  RunFor(absl::Minutes(1));
  ASSERT_EQ(Running(), low);
  const std::string next = Challenge();
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
  EXPECT_EQ(Next(), next);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenFromAJobThatLoadsOrIsAboutToEnd) {
  StartFor("ann");
  SubmitFor("bob", 5);
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
  Worker().OnProgress(Step(99'990, 100'000));
  After(absl::Minutes(6));
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
  const std::string high = StartFor("bob", 5);
  launcher_.Exit(ExitReason::kCrashed);  // tried again in 10 s
  StartFor("ann");
  Worker().OnProgress(Step(1, 100'000));
  const absl::Time again = scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_LE(again, *Stored(high).not_before);
  After(absl::Seconds(10));
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(SchedulerPreemptionTest, OneThatWaitsBehindAllTakesNothing) {
  const std::string unlucky = StartFor("bob", 5);
  KillAndRestart();  // an interruption without a checkpoint
  ASSERT_TRUE(Stored(unlucky).behind);
  StartFor("ann");
  Worker().OnProgress(Step(1, 100'000));
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NothingIsTakenWhileNobodyMayTrain) {
  PauseOnBattery();
  LongAtWork();
  SubmitFor("bob", 5);
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  EXPECT_EQ(launcher_.preempted, 0);
  Worker().OnHeld();
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerPreemptionTest, NoPauseAsksAWorkerThatGivesWay) {
  PauseOnBattery();
  LongAtWork();
  Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  Unplug();
  EXPECT_EQ(launcher_.paused, 0);
}

TEST_F(SchedulerPreemptionTest, ADrainGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  Challenge();
  const absl::Duration patient = launcher_.preempt_grace;
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 2);
  EXPECT_EQ(launcher_.preempt_grace, absl::Minutes(2));
  EXPECT_GE(patient, absl::Minutes(2));
  End(ExitReason::kPreempted, "stopped at a checkpoint");
  EXPECT_TRUE(scheduler_->Idle());
  EXPECT_EQ(Stored(low).message, "stopped at a checkpoint");
}

TEST_F(SchedulerPreemptionTest, ACancelGoesBeforeAPreemption) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
  ASSERT_TRUE(scheduler_->Cancel(low).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(low), State::kCancelled);
  EXPECT_EQ(Next(), high);
}

TEST_F(SchedulerPreemptionTest, WhereTheOtherIsGoneTheJobGoesOn) {
  const std::string low = LongAtWork();
  const std::string high = Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  ASSERT_TRUE(scheduler_->Cancel(high).ok());
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(Next(), low);
}

// A worker stops between two steps: an hour's step is not thrown away, and a
// worker that never answers is killed in the end.
TEST_F(SchedulerPreemptionTest, TheWorkerGetsTheTimeOfItsSteps) {
  StartFor("ann");
  Progress slow = Step(1, 1000);
  slow.seconds = 3600;
  Worker().OnProgress(slow);
  After(absl::Minutes(6));
  Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  EXPECT_EQ(launcher_.preempt_grace, absl::Hours(3) + absl::Minutes(2));
}

TEST_F(SchedulerPreemptionTest, NoStepIsBelievedWithoutBound) {
  for (const double seconds :
       {1e300, -5.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    StartFor("ann");
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
    End(ExitReason::kDone);
  }
}

TEST_F(SchedulerPreemptionTest, AKillDuringAPreemptionLosesNeither) {
  const std::string low = LongAtWork();
  Worker().OnCheckpoint(At(5, "/out/step-5"));
  const std::string high = Challenge();
  ASSERT_EQ(launcher_.preempted, 1);
  KillAndRestart();
  EXPECT_EQ(StateOf(low), State::kQueued);
  EXPECT_EQ(Next(), high);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(Running(), low);
}

}  // namespace
}  // namespace mpsd::jobs
