// SPDX-License-Identifier: Apache-2.0
// What people do to queued jobs and to the queue: hold, release, move, drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/scheduler.h"
#include "tests/server/jobs/scheduler_share_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr MoveTo kTop{MoveTo::Where::kTop, 0, false};
constexpr MoveTo kBottom{MoveTo::Where::kBottom, 0, false};
constexpr MoveTo kTopOfAll{MoveTo::Where::kTop, 0, true};
constexpr MoveTo kBottomOfAll{MoveTo::Where::kBottom, 0, true};
constexpr MoveTo ToPriority(int32_t priority) {
  return {MoveTo::Where::kPriority, priority, false};
}

class SchedulerVerbsTest : public SchedulerShareFixture {
 protected:
  std::string Message(const absl::StatusOr<Job>& job) {
    return std::string(job.status().message());
  }
  void RunToEnd(const std::string& id, ExitReason reason) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    launcher_.Exit(reason);
    scheduler_->Tick();
  }
};

// --- Hold and release.

TEST_F(SchedulerVerbsTest, AHeldJobDoesNotStartUntilItIsReleased) {
  const std::string first = Submit(), second = Submit();
  const auto held = scheduler_->Hold(first, "by ann: the data is late");
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(held->held);
  EXPECT_EQ(board_->HoldOf(first), "by ann: the data is late");
  EXPECT_EQ(board_->QueuePosition(first), 0) << "it keeps its place";
  scheduler_->Tick();
  EXPECT_EQ(Running(), second);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture()) << "no need to look";
  EXPECT_EQ(Running(), "");

  changes_ = 0;
  const auto released = scheduler_->Release(first);
  ASSERT_TRUE(released.ok());
  EXPECT_FALSE(released->held);
  EXPECT_GT(changes_, 0);
  EXPECT_EQ(board_->HoldOf(first), "");
  scheduler_->Tick();
  EXPECT_EQ(Running(), first);
  EXPECT_THAT(Notes(first),
              ElementsAre("held: by ann: the data is late", "released"));
}

TEST_F(SchedulerVerbsTest, AHoldOutlivesTheDaemon) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  KillAndRestart();
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(board_->HoldOf(id), "by ann");
  ASSERT_TRUE(scheduler_->Release(id).ok());
  KillAndRestart();
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerVerbsTest, HoldingAgainReplacesTheReasonAndOtherwiseNothing) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  const int updates = store_.updates();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  EXPECT_EQ(store_.updates(), updates);
  ASSERT_TRUE(scheduler_->Hold(id, "by bob: no").ok());
  EXPECT_EQ(board_->HoldOf(id), "by bob: no");
  ASSERT_TRUE(scheduler_->Release(id).ok());
  const int after = store_.updates();
  ASSERT_TRUE(scheduler_->Release(id).ok());
  EXPECT_EQ(store_.updates(), after);
}

TEST_F(SchedulerVerbsTest, ASubmissionMayBeHeld) {
  SubmitRequest request = Request();
  request.held = true;
  const auto job = scheduler_->Submit(request);
  ASSERT_TRUE(job.ok());
  EXPECT_TRUE(job->job.held);
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(board_->HoldOf(job->job.id), "since its submission");
  ASSERT_TRUE(scheduler_->Release(job->job.id).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), job->job.id);
}

TEST_F(SchedulerVerbsTest, OnlyAQueuedJobIsHeldReleasedOrMoved) {
  const std::string id = Submit();
  scheduler_->Tick();
  for (const auto& refused :
       {scheduler_->Hold(id, "by ann"), scheduler_->Release(id),
        scheduler_->Move(id, kTop)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
    EXPECT_THAT(Message(refused), HasSubstr("is RUNNING: only a QUEUED job"));
  }
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Hold("X", "by ann").status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Release("X").status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Move("X", kTop).status()));
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Retry("X", false).status()));
}

TEST_F(SchedulerVerbsTest, WhatIsNotStoredIsNotDone) {
  const std::string first = Submit(), second = Submit();
  store_.FailWith(absl::ResourceExhaustedError("full"));
  EXPECT_FALSE(scheduler_->Hold(first, "by ann").ok());
  EXPECT_FALSE(scheduler_->Move(second, kTop).ok());
  EXPECT_FALSE(scheduler_->DrainQueue("by ann").ok());
  store_.FailWith(absl::OkStatus());
  EXPECT_FALSE(board_->Info().drained);
  EXPECT_EQ(board_->QueuePosition(first), 0);
  scheduler_->Tick();
  EXPECT_EQ(Running(), first);
}

TEST_F(SchedulerVerbsTest, ACancelledJobIsHeldNoMore) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_FALSE(Stored(id).held);
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  scheduler_->Tick();
  EXPECT_EQ(Running(), id);
}

// The row still says RUNNING, and the end waits in memory.
TEST_F(SchedulerVerbsTest, NothingIsChangedBeforeTheEndOfAnAttemptIsStored) {
  const std::string id = Submit();
  scheduler_->Tick();
  store_.FailWith(absl::ResourceExhaustedError("full"));
  launcher_.Exit(ExitReason::kCrashed);
  store_.FailWith(absl::OkStatus());
  for (const auto& refused :
       {scheduler_->Hold(id, "by ann"), scheduler_->Release(id),
        scheduler_->Move(id, kTop), scheduler_->Retry(id, false),
        scheduler_->Retry(id, true)}) {
    EXPECT_TRUE(absl::IsAborted(refused.status())) << refused.status();
  }
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->Hold(id, "by ann").ok());
}

// Time under a hold is no time that the queue was stuck.
TEST_F(SchedulerVerbsTest, AHeldJobCountsAsNoneThatWaits) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  EXPECT_EQ(exported_metrics_.queue.oldest, std::nullopt);
  EXPECT_EQ(exported_metrics_.queue.by_priority.at(0), 1);
  clock_.Advance(absl::Hours(48));
  ASSERT_TRUE(scheduler_->Release(id).ok());
  EXPECT_EQ(exported_metrics_.queue.oldest, clock_.Now());
}

TEST_F(SchedulerVerbsTest, AHeldJobTakesTheDeviceFromNobody) {
  preemption_.enabled = true;
  Restart();
  const std::string running = Submit();
  scheduler_->Tick();
  const std::string high = Submit(5);
  ASSERT_TRUE(scheduler_->Hold(high, "by ann").ok());
  Worker().OnProgress(Step(1));
  clock_.Advance(absl::Hours(1));
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
}

// --- Move.

TEST_F(SchedulerVerbsTest, AMovedJobTakesNoTurnOfOthers) {
  const std::string a1 = SubmitFor("ann"), b1 = SubmitFor("bob"),
                    a2 = SubmitFor("ann"), b2 = SubmitFor("bob"),
                    a3 = SubmitFor("ann");
  ASSERT_TRUE(scheduler_->Move(a3, kTop).ok());
  EXPECT_THAT(Order(), ElementsAre(a3, b1, a1, b2, a2));
  ASSERT_TRUE(scheduler_->Move(a3, kBottom).ok());
  EXPECT_THAT(Order(), ElementsAre(a1, b1, a2, b2, a3));
  ASSERT_TRUE(scheduler_->Move(a1, kBottom).ok());
  EXPECT_THAT(Order(), ElementsAre(a2, b1, a3, b2, a1));
  KillAndRestart();
  EXPECT_THAT(Order(), ElementsAre(a2, b1, a3, b2, a1));
}

TEST_F(SchedulerVerbsTest, WhoMovesAtEachTurnGainsNothing) {
  half_life_ = absl::ZeroDuration();
  Restart();
  const std::string a1 = SubmitFor("ann");
  ASSERT_TRUE(scheduler_->Hold(a1, "by ann").ok());
  const std::string b1 = SubmitFor("bob"), a2 = SubmitFor("ann"),
                    b2 = SubmitFor("bob"), a3 = SubmitFor("ann");
  // The turn of a1, which was held, goes to a3, and is gone then.
  ASSERT_TRUE(scheduler_->Move(a3, kTop).ok());
  RunToEnd(a3, ExitReason::kDone);
  EXPECT_EQ(Running(), b1);
  EXPECT_THAT(Order(), ElementsAre(b1, a1, b2, a2));
  ASSERT_TRUE(scheduler_->Move(a2, kTop).ok());
  EXPECT_THAT(Order(), ElementsAre(b1, a2, b2, a1));
  KillAndRestart();
  EXPECT_THAT(Order(), ElementsAre(a2, b2, a1, b1)) << "b1 was interrupted";
}

TEST_F(SchedulerVerbsTest, AJobComesBackToTheTurnItHad) {
  const std::string a1 = SubmitFor("ann"), b1 = SubmitFor("bob"),
                    a2 = SubmitFor("ann");
  ASSERT_TRUE(scheduler_->Move(a2, kTop).ok());
  scheduler_->Tick();
  ASSERT_EQ(Running(), a2);
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_THAT(Order(), ElementsAre(a2, b1, a1));
}

TEST_F(SchedulerVerbsTest, FairShareDecidesBetweenOwnersAsBefore) {
  SubmitFor("ann");
  scheduler_->Tick();
  After(absl::Minutes(5));
  const std::string a2 = SubmitFor("ann"), b1 = SubmitFor("bob");
  ASSERT_TRUE(scheduler_->Move(a2, kTop).ok());
  EXPECT_EQ(board_->QueuePosition(b1), 0);
  ASSERT_TRUE(scheduler_->Move(a2, kTopOfAll).ok());
  EXPECT_EQ(board_->QueuePosition(a2), 0) << "an admin's word is above it";
}

TEST_F(SchedulerVerbsTest, AnAdminsTopAndBottomCountAmongAll) {
  const std::string a1 = SubmitFor("ann"), b1 = SubmitFor("bob"),
                    c1 = SubmitFor("cid");
  ASSERT_TRUE(scheduler_->Move(c1, kTopOfAll).ok());
  ASSERT_TRUE(scheduler_->Move(b1, kTopOfAll).ok());
  EXPECT_THAT(Order(), ElementsAre(b1, c1, a1));
  ASSERT_TRUE(scheduler_->Move(b1, kBottomOfAll).ok());
  EXPECT_THAT(Order(), ElementsAre(c1, a1, b1));
  KillAndRestart();
  EXPECT_THAT(Order(), ElementsAre(c1, a1, b1));
  const std::string a2 = SubmitFor("ann");
  EXPECT_THAT(Order(), ElementsAre(c1, a1, a2, b1)) << "behind all that come";
  // The owner's own word puts it among the owner's jobs again.
  ASSERT_TRUE(scheduler_->Move(b1, kTop).ok());
  EXPECT_THAT(Order(), ElementsAre(c1, a1, b1, a2));
}

TEST_F(SchedulerVerbsTest, ANewJobStandsBehindWhatWasAtTheBottom) {
  const std::string a1 = SubmitFor("ann"), a2 = SubmitFor("ann");
  ASSERT_TRUE(scheduler_->Move(a1, kBottom).ok());
  const std::string a3 = SubmitFor("ann");
  EXPECT_THAT(Order(), ElementsAre(a2, a1, a3));
}

TEST_F(SchedulerVerbsTest, APriorityIsBoundByTheLimits) {
  const std::string first = Submit(), second = Submit();
  UserLimits limits;
  limits.highest_priority = 3;
  const auto refused = scheduler_->Move(second, ToPriority(4), limits);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(Message(refused), HasSubstr("priority"));
  ASSERT_TRUE(scheduler_->Move(second, ToPriority(3), limits).ok());
  EXPECT_EQ(board_->QueuePosition(second), 0);
  EXPECT_EQ(Stored(second).priority, 3);
  EXPECT_THAT(Notes(second), ElementsAre("moved from priority 0 to 3"));
  KillAndRestart();
  EXPECT_EQ(board_->QueuePosition(second), 0);
}

TEST_F(SchedulerVerbsTest, MovingAJobToWhereItStandsChangesNothing) {
  const std::string first = Submit(), second = Submit();
  ASSERT_TRUE(scheduler_->Move(second, kTop).ok());
  const int updates = store_.updates();
  EXPECT_TRUE(scheduler_->Move(second, kTop).ok());
  EXPECT_TRUE(scheduler_->Move(second, ToPriority(0)).ok());
  EXPECT_EQ(store_.updates(), updates);
}

TEST_F(SchedulerVerbsTest, AHeldJobIsMovedAndStaysHeld) {
  const std::string first = Submit(), second = Submit();
  ASSERT_TRUE(scheduler_->Hold(second, "by ann").ok());
  ASSERT_TRUE(scheduler_->Move(second, kTop).ok());
  EXPECT_EQ(board_->QueuePosition(second), 0);
  EXPECT_EQ(board_->HoldOf(second), "by ann");
  scheduler_->Tick();
  EXPECT_EQ(Running(), first);
}

// --- Drain.

TEST_F(SchedulerVerbsTest, ADrainedDaemonStartsNothingUntilItIsUndrained) {
  const std::string first = Submit();
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->DrainQueue("mpsd is drained by root: a disk").ok());
  const std::string second = Submit();
  EXPECT_EQ(Running(), first) << "the running job goes on";
  EXPECT_EQ(launcher_.preempted, 0);
  EXPECT_TRUE(board_->Info().drained);
  EXPECT_EQ(board_->Info().hold_reason, "drained");
  EXPECT_EQ(board_->HoldOf(second), "mpsd is drained by root: a disk");
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture());
  EXPECT_EQ(Running(), "");
  KillAndRestart();
  scheduler_->Tick();
  EXPECT_EQ(Running(), "") << "after a restart either";
  EXPECT_TRUE(board_->Info().drained);
  EXPECT_THAT(exported_metrics_.held,
              Contains(testing::Key(HoldReason::kDrained)));

  changes_ = 0;
  ASSERT_TRUE(scheduler_->UndrainQueue().ok());
  ASSERT_TRUE(scheduler_->UndrainQueue().ok());
  EXPECT_GT(changes_, 0);
  scheduler_->Tick();
  EXPECT_EQ(Running(), second);
  EXPECT_FALSE(board_->Info().drained);
  KillAndRestart();
  EXPECT_FALSE(board_->Info().drained);
}

TEST_F(SchedulerVerbsTest, DrainingAgainReplacesTheReason) {
  ASSERT_TRUE(scheduler_->DrainQueue("one").ok());
  ASSERT_TRUE(scheduler_->DrainQueue("two").ok());
  EXPECT_EQ(board_->Info().hold, "two");
}

TEST_F(SchedulerVerbsTest, NobodyTakesTheDeviceOfADrainedDaemon) {
  preemption_.enabled = true;
  Restart();
  Submit();
  scheduler_->Tick();
  Worker().OnProgress(Step(1));
  ASSERT_TRUE(scheduler_->DrainQueue("by root").ok());
  Submit(9);
  clock_.Advance(absl::Hours(1));
  scheduler_->Tick();
  EXPECT_EQ(launcher_.preempted, 0);
}

TEST_F(SchedulerVerbsTest, ADrainShowsNoReasonOfAnEarlierTry) {
  launcher_.ready = absl::UnavailableError("the self-test failed");
  Submit();
  scheduler_->Tick();
  EXPECT_EQ(board_->Info().hold_reason, "device");
  ASSERT_TRUE(scheduler_->DrainQueue("by root").ok());
  scheduler_->Tick();
  EXPECT_EQ(board_->Info().hold, "by root");
}

}  // namespace
}  // namespace mpsd::jobs
