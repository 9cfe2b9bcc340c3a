// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/controller.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/sweeps/sweep_fixture.h"

namespace mpsd::sweeps {
namespace {

using jobs::State;
using testing::ElementsAre;
using testing::HasSubstr;

class ControllerTest : public SweepFixture {};

TEST_F(ControllerTest, TheBestGoOnAndTheOthersEndWithAReason) {
  const Sweep sweep = Create(Asked(9, 3));
  EXPECT_THAT(sweep.plan.rungs, ElementsAre(4, 12));
  scheduler_->Tick();
  for (int i = 0; i < 8; ++i) RunOne();
  controller_->Tick();
  EXPECT_EQ(sweeps_.decisions, 0) << "one is still on its way";
  EXPECT_THAT(Reason(sweep, 0), HasSubstr("waits for its rung"));
  EXPECT_EQ(States(sweep), "QQQQQQQQR");
  RunOne();
  EXPECT_EQ(Running(), "") << "all of them rest";
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QQQCCCCCC");
  EXPECT_EQ(JobOf(sweep, 0).until_step, 12);
  EXPECT_EQ(Reason(sweep, 0), "");
  EXPECT_EQ(JobOf(sweep, 4).message,
            "ended by its sweep at step 4: loss 0.4 is place 5 of 9, the best "
            "3 go on");
  RunAll();
  EXPECT_EQ(States(sweep), "SCCCCCCCC");
  EXPECT_EQ(sweeps_.decisions, 2);
  EXPECT_THAT(JobOf(sweep, 2).message, HasSubstr("the best one goes on"));
  EXPECT_EQ(Stored(sweep.id).children[1].rung, 1);
  EXPECT_EQ(Stored(sweep.id).children[1].metric, 0.1);
  // What stopped at a rung did not fail, and was not interrupted.
  EXPECT_EQ(JobOf(sweep, 0).failures, 0);
  EXPECT_EQ(JobOf(sweep, 0).interruptions, 0);
  EXPECT_EQ(controller_->Tick(), absl::InfiniteFuture());
}

TEST_F(ControllerTest, AGreaterMetricMayBeTheBetterOne) {
  SweepBook::Request request = Asked(3, 3);
  request.greater_is_better = true;
  const Sweep sweep = Create(request);
  RunAll();
  EXPECT_EQ(States(sweep), "CCS");
}

TEST_F(ControllerTest, WithoutRungsEveryChildRunsToItsEnd) {
  const Sweep sweep = Create(Asked(3));
  EXPECT_EQ(controller_->Tick(), absl::InfiniteFuture());
  RunAll();
  EXPECT_EQ(States(sweep), "SSS");
}

// The daemon is killed before each line that matters, and once more after it.
TEST_F(ControllerTest, AKillAtAnyPointChangesNoDecision) {
  const Sweep sweep = Create(Asked(4, 2));  // rungs 10 and 20
  scheduler_->Tick();
  Worker().OnProgress(Step(3, 40));
  KillDaemon();  // a child is interrupted on its way
  clock_.Advance(absl::Minutes(2));
  scheduler_->Tick();
  for (int i = 0; i < 4; ++i) RunOne();
  KillDaemon();  // all rest, and nothing is decided
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(States(sweep), "QQQQ");
  scheduler_->Tick();
  EXPECT_EQ(Running(), "") << "who rests does not start after a restart";
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QQCC");
  KillDaemon();
  controller_->Tick();
  EXPECT_EQ(sweeps_.decisions, 1);
  RunAll();
  EXPECT_EQ(States(sweep), "SCCC");
}

TEST_F(ControllerTest, WhatIsDecidedButNotDoneIsDoneAfterAKill) {
  const Sweep sweep = Create(Asked(4, 2));
  scheduler_->Tick();
  for (int i = 0; i < 4; ++i) RunOne();
  // As of a kill right after the decision was stored.
  Sweep decided = Stored(sweep.id);
  ASSERT_TRUE(DecideRung(*ReadJobs(store_, sweep.id), decided));
  ASSERT_TRUE(sweeps_.Decide(decided).ok());
  // And of one in the middle of carrying it out.
  ASSERT_TRUE(scheduler_->Drop(sweep.children[3].job_id, "early").ok());
  ASSERT_TRUE(scheduler_->SendOn(sweep.children[0].job_id, 20).ok());
  KillDaemon();
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QQCC");
  EXPECT_EQ(JobOf(sweep, 1).until_step, 20);
  EXPECT_EQ(sweeps_.decisions, 1);
  RunAll();
  EXPECT_EQ(States(sweep), "SCCC");
}

TEST_F(ControllerTest, AChildThatFailsIsRankedLast) {
  const Sweep sweep = Create(Asked(3, 3));
  scheduler_->Tick();
  launcher_.Exit(jobs::ExitReason::kRejected, "no");
  scheduler_->Tick();
  RunOne();
  RunOne();
  controller_->Tick();
  EXPECT_EQ(States(sweep), "FQC");
  RunAll();
  EXPECT_EQ(States(sweep), "FSC");
  EXPECT_THAT(Stored(sweep.id).children[0].out, HasSubstr("FAILED before"));
}

TEST_F(ControllerTest, CancelledAndDeletedChildrenHoldNobodyUp) {
  const Sweep sweep = Create(Asked(4, 2));
  ASSERT_TRUE(scheduler_->Cancel(sweep.children[0].job_id).ok());
  ASSERT_TRUE(scheduler_->Cancel(sweep.children[1].job_id).ok());
  ASSERT_TRUE(scheduler_->Delete(sweep.children[1].job_id).ok());
  RunAll();
  EXPECT_EQ(States(sweep), "C-SC");
}

TEST_F(ControllerTest, WithoutAValueNobodyGoesOn) {
  const Sweep sweep = Create(Asked(2, 2));
  scheduler_->Tick();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RunOne(nan);
  RunOne(nan);
  controller_->Tick();
  EXPECT_EQ(States(sweep), "CC");
  EXPECT_THAT(JobOf(sweep, 0).message,
              HasSubstr("has no loss to be ranked by"));
}

// A person's hold outlasts the rungs, and the sweep waits for the child.
TEST_F(ControllerTest, AHeldChildIsWaitedFor) {
  const Sweep sweep = Create(Asked(2, 2));
  ASSERT_TRUE(scheduler_->Hold(sweep.children[0].job_id, "wait").ok());
  scheduler_->Tick();
  RunOne();
  controller_->Tick();
  EXPECT_EQ(sweeps_.decisions, 0);
  EXPECT_EQ(Running(), "");
  ASSERT_TRUE(scheduler_->Release(sweep.children[0].job_id).ok());
  scheduler_->Tick();
  RunOne();
  // Held at its rung: it takes part, and waits for its release.
  ASSERT_TRUE(scheduler_->Hold(sweep.children[0].job_id, "again").ok());
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QC");
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(Reason(sweep, 0), "again");
  ASSERT_TRUE(scheduler_->Release(sweep.children[0].job_id).ok());
  RunAll();
  EXPECT_EQ(States(sweep), "SC");
}

TEST_F(ControllerTest, AReleaseDoesNotSendOnWhoRests) {
  const Sweep sweep = Create(Asked(2, 2));
  scheduler_->Tick();
  RunOne();
  ASSERT_TRUE(scheduler_->Release(sweep.children[0].job_id).ok());
  EXPECT_THAT(Reason(sweep, 0), HasSubstr("waits for its rung"));
  EXPECT_EQ(Running(), sweep.children[1].job_id);
}

// Who was dropped, or had ended, and is queued again by a person is a job like
// any other.
TEST_F(ControllerTest, WhoIsQueuedAgainRunsToItsEnd) {
  const Sweep sweep = Create(Asked(3, 3));
  ASSERT_TRUE(scheduler_->Cancel(sweep.children[1].job_id).ok());
  RunAll();
  EXPECT_EQ(States(sweep), "SCC");
  ASSERT_TRUE(scheduler_->Retry(sweep.children[1].job_id).ok());
  ASSERT_TRUE(scheduler_->Retry(sweep.children[2].job_id).ok());
  controller_->Tick();
  RunAll();
  EXPECT_EQ(States(sweep), "SSS");
}

TEST_F(ControllerTest, ADrainedQueueKeepsWhoIsSentOn) {
  const Sweep sweep = Create(Asked(2, 2));
  scheduler_->Tick();
  RunOne();
  RunOne();
  ASSERT_TRUE(scheduler_->DrainQueue("away").ok());
  controller_->Tick();
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(States(sweep), "QC");
  ASSERT_TRUE(scheduler_->UndrainQueue().ok());
  RunAll();
  EXPECT_EQ(States(sweep), "SC");
}

// A run that ended before its rung, by early stopping, keeps its place.
TEST_F(ControllerTest, WhoHasSucceededEarlyTakesPart) {
  const Sweep sweep = Create(Asked(2, 2));
  scheduler_->Tick();
  Report(5, 0.01);
  jobs::WorkerListener::Result done;
  done.reason = jobs::ExitReason::kDone;
  launcher_.Exit(done);
  scheduler_->Tick();
  RunOne();
  controller_->Tick();
  EXPECT_EQ(States(sweep), "SC");
}

TEST_F(ControllerTest, TwentySweepsAtOnce) {
  std::vector<Sweep> sweeps;
  for (int i = 0; i < 20; ++i) sweeps.push_back(Create(Asked(4, 2)));
  RunAll();
  for (const Sweep& sweep : sweeps) EXPECT_EQ(States(sweep), "SCCC");
  EXPECT_EQ(sweeps_.decisions, 40);
}

TEST_F(ControllerTest, ADiskThatIsFullDelaysTheDecision) {
  const Sweep sweep = Create(Asked(2, 2));
  scheduler_->Tick();
  RunOne();
  RunOne();
  sweeps_.failure = absl::ResourceExhaustedError("disk full");
  EXPECT_EQ(controller_->Tick(), clock_.Now() + absl::Seconds(1));
  const size_t lines = log_.size();
  controller_->Tick();
  EXPECT_EQ(log_.size(), lines) << "told once";
  EXPECT_EQ(States(sweep), "QQ");
  sweeps_.failure = absl::OkStatus();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QQ") << "decided, and not carried out";
  store_.FailWith(absl::OkStatus());
  controller_->Tick();
  EXPECT_EQ(States(sweep), "QC");
}

TEST_F(ControllerTest, WhoRestsOrEndsCallsForTheController) {
  const Sweep sweep = Create(Asked(2, 2));
  EXPECT_EQ(calls_, 1);
  scheduler_->Tick();
  EXPECT_EQ(sweep_changes_, 0);
  RunOne();
  EXPECT_EQ(sweep_changes_, 1);
  ASSERT_TRUE(scheduler_->Cancel(sweep.children[0].job_id).ok());
  EXPECT_EQ(sweep_changes_, 2);
  const std::string other = Submit();
  ASSERT_TRUE(scheduler_->Cancel(other).ok());
  EXPECT_EQ(sweep_changes_, 2) << "a job of no sweep";
}

}  // namespace
}  // namespace mpsd::sweeps
