// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/sha256.h"
#include "server/jobs/scheduler.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

// What people do to queued jobs and to the queue: hold, release, move, drain.
// What the scheduler refuses because of a user's limits.
// What goes by a rule or by a person's wish, and what is kept from both.

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::Fails;
using testing_support::Ok;

constexpr MoveTo kTop{MoveTo::Where::kTop, 0, false};
constexpr MoveTo kBottom{MoveTo::Where::kBottom, 0, false};
constexpr MoveTo kTopOfAll{MoveTo::Where::kTop, 0, true};
constexpr MoveTo kBottomOfAll{MoveTo::Where::kBottom, 0, true};
constexpr MoveTo ToPriority(int32_t priority) {
  return {MoveTo::Where::kPriority, priority, false};
}

using SchedulerVerbsTest = SchedulerShareFixture;

TEST_F(SchedulerVerbsTest, AHeldJobDoesNotStartUntilItIsReleased) {
  const std::string first = Submit(), second = Submit();
  const auto held = Ok(scheduler_->Hold(first, "by ann: the data is late"));
  EXPECT_TRUE(held.held);
  EXPECT_EQ(board_->HoldOf(first), "by ann: the data is late");
  EXPECT_EQ(board_->QueuePosition(first), 0) << "it keeps its place";
  EXPECT_EQ(Next(), second);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(scheduler_->Tick(), absl::InfiniteFuture()) << "no need to look";
  EXPECT_EQ(Running(), "");

  changes_ = 0;
  const auto released = scheduler_->Release(first);
  ASSERT_TRUE(released.ok());
  EXPECT_FALSE(released->held);
  EXPECT_GT(changes_, 0);
  EXPECT_EQ(board_->HoldOf(first), "");
  EXPECT_EQ(Next(), first);
  EXPECT_THAT(Notes(first),
              ElementsAre("held: by ann: the data is late", "released"));
}

TEST_F(SchedulerVerbsTest, AHoldOutlivesTheDaemon) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  KillAndRestart();
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(board_->HoldOf(id), "by ann");
  ASSERT_TRUE(scheduler_->Release(id).ok());
  KillAndRestart();
  EXPECT_EQ(Next(), id);
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
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(board_->HoldOf(job->job.id), "since its submission");
  ASSERT_TRUE(scheduler_->Release(job->job.id).ok());
  EXPECT_EQ(Next(), job->job.id);
}

TEST_F(SchedulerVerbsTest, OnlyAQueuedJobIsHeldReleasedOrMoved) {
  const std::string id = Start();
  for (const auto& refused :
       {scheduler_->Hold(id, "by ann"), scheduler_->Release(id),
        scheduler_->Move(id, kTop)}) {
    EXPECT_THAT(refused,
                Fails(kFailedPrecondition, "is RUNNING: only a QUEUED job"));
  }
  for (const auto& unknown :
       {scheduler_->Hold("X", "by ann"), scheduler_->Release("X"),
        scheduler_->Move("X", kTop), scheduler_->Retry("X", false),
        scheduler_->Cancel("X"), scheduler_->SetPinned("X", true)}) {
    EXPECT_THAT(unknown, Fails(kNotFound));
  }
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
  EXPECT_EQ(Next(), first);
}

TEST_F(SchedulerVerbsTest, ACancelledJobIsHeldNoMore) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_FALSE(Stored(id).held);
  EXPECT_EQ(Stored(id).hold_reason, "");
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(Next(), id);
}

// The row still says RUNNING, and the end waits in memory.
TEST_F(SchedulerVerbsTest, NothingIsChangedBeforeTheEndOfAnAttemptIsStored) {
  const std::string id = Start();
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
  Start();
  const std::string high = Submit(5);
  ASSERT_TRUE(scheduler_->Hold(high, "by ann").ok());
  Worker().OnProgress(Step(1));
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

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
  ASSERT_EQ(Next(), a2);
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_THAT(Order(), ElementsAre(a2, b1, a1));
}

TEST_F(SchedulerVerbsTest, FairShareDecidesBetweenOwnersAsBefore) {
  StartFor("ann");
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
  EXPECT_THAT(scheduler_->Move(second, ToPriority(4), limits),
              Fails(kInvalidArgument, "priority"));
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
  EXPECT_EQ(Next(), first);
}

TEST_F(SchedulerVerbsTest, ADrainedDaemonStartsNothingUntilItIsUndrained) {
  const std::string first = Start();
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
  EXPECT_EQ(Next(), "") << "after a restart either";
  EXPECT_TRUE(board_->Info().drained);
  EXPECT_THAT(exported_metrics_.held,
              Contains(testing::Key(HoldReason::kDrained)));

  changes_ = 0;
  ASSERT_TRUE(scheduler_->UndrainQueue().ok());
  ASSERT_TRUE(scheduler_->UndrainQueue().ok());
  EXPECT_GT(changes_, 0);
  EXPECT_EQ(Next(), second);
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
  Start();
  Worker().OnProgress(Step(1));
  ASSERT_TRUE(scheduler_->DrainQueue("by root").ok());
  Submit(9);
  After(absl::Hours(1));
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

class FakeLedger : public UserLedger {
 public:
  std::unique_ptr<UploadClaim> Begin(const std::string&,
                                     const UserLimits&) override {
    return nullptr;
  }
  absl::Status Use(const std::string& user, const UserLimits&,
                   const std::set<std::string>& blobs) override {
    if (use.ok()) used[user] = blobs;
    return use;
  }
  absl::StatusOr<bool> Holds(const std::string&, const std::string&) override {
    return true;
  }
  absl::StatusOr<UserBytes> BytesOf(const std::string& user) override {
    ++asked;
    return UserBytes{0, results[user]};
  }

  absl::Status use;
  std::map<std::string, std::set<std::string>> used;
  std::map<std::string, int64_t> results;
  int asked = 0;
};

class SchedulerLimitsTest : public SchedulerFixture {
 protected:
  SchedulerLimitsTest() {
    ledger_ = &fake_ledger_;
    Restart();
  }
  absl::StatusOr<SubmitResult> SubmitAs(const std::string& owner,
                                        const UserLimits& limits,
                                        int32_t priority = 0) {
    SubmitRequest request = Request();
    request.owner = owner;
    request.limits = limits;
    request.priority = priority;
    clock_.Advance(absl::Milliseconds(1));
    return scheduler_->Submit(request);
  }
  static UserLimits Queued(int64_t most) {
    UserLimits limits;
    limits.queued_jobs = most;
    return limits;
  }

  FakeLedger fake_ledger_;
};

TEST_F(SchedulerLimitsTest, AUserHasSoManyJobsInTheQueue) {
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  EXPECT_THAT(
      SubmitAs("ada", Queued(2)),
      Fails(kResourceExhausted, "ada has 2 jobs in the queue, 2 are allowed"));
  EXPECT_EQ(files_.specs.size(), 2u) << "a refused job leaves no trace";
  // Others have limits of their own, and admins none.
  EXPECT_TRUE(SubmitAs("bob", Queued(1)).ok());
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
}

TEST_F(SchedulerLimitsTest, AJobThatRunsIsInTheQueueNoMore) {
  ASSERT_TRUE(SubmitAs("ada", Queued(1)).ok());
  EXPECT_FALSE(SubmitAs("ada", Queued(1)).ok());
  scheduler_->Tick();
  EXPECT_TRUE(SubmitAs("ada", Queued(1)).ok());
  EXPECT_FALSE(SubmitAs("ada", Queued(1)).ok());
}

// Both have passed every check but the last when the first one is stored.
TEST_F(SchedulerLimitsTest, OfTwoAtOnceOnePasses) {
  absl::Status inner;
  bool first = true;
  files_.on_create = [&] {
    if (!std::exchange(first, false)) return;
    inner = SubmitAs("ada", Queued(1)).status();
  };
  const absl::Status outer = SubmitAs("ada", Queued(1)).status();
  EXPECT_TRUE(inner.ok()) << inner;
  EXPECT_TRUE(absl::IsResourceExhausted(outer)) << outer;
  EXPECT_EQ(files_.specs.size(), 1u);
  EXPECT_EQ(store_.Ids()->size(), 1u);
}

TEST_F(SchedulerLimitsTest, TheSameKeyAnswersWithTheLastJobThatWasAllowed) {
  SubmitRequest request = Request();
  request.owner = "ada";
  request.limits = Queued(1);
  request.idempotency_key = "k";
  std::string inner;
  bool first = true;
  files_.on_create = [&] {
    if (!std::exchange(first, false)) return;
    inner = scheduler_->Submit(request)->job.id;
    clock_.Advance(absl::Milliseconds(1));
  };
  const auto outer = Ok(scheduler_->Submit(request));
  EXPECT_TRUE(outer.existed);
  EXPECT_EQ(outer.job.id, inner);
  EXPECT_EQ(scheduler_->Submit(request)->job.id, inner);
}

TEST_F(SchedulerLimitsTest, RetriesCountAsSubmitsDo) {
  const std::string first = SubmitAs("ada", Queued(1))->job.id;
  ASSERT_TRUE(scheduler_->Cancel(first).ok());
  const std::string second = SubmitAs("ada", Queued(1))->job.id;
  EXPECT_TRUE(absl::IsResourceExhausted(
      scheduler_->Retry(first, false, Queued(1)).status()));
  EXPECT_EQ(StateOf(first), State::kCancelled);
  ASSERT_TRUE(scheduler_->Cancel(second).ok());
  EXPECT_TRUE(scheduler_->Retry(first, false, Queued(1)).ok());
  // An admin.
  EXPECT_TRUE(scheduler_->Retry(second).ok());
}

TEST_F(SchedulerLimitsTest, APriorityBeyondTheRangeIsRefused) {
  UserLimits limits;
  limits.lowest_priority = -5;
  limits.highest_priority = 0;
  EXPECT_TRUE(SubmitAs("ada", limits, 0).ok());
  EXPECT_TRUE(SubmitAs("ada", limits, -5).ok());
  for (const int32_t priority : {-6, 1, 2'147'483'647}) {
    EXPECT_THAT(SubmitAs("ada", limits, priority),
                Fails(kInvalidArgument, "-5 to 0"));
  }
}

TEST_F(SchedulerLimitsTest, NoJobIsQueuedOnceResultsAreTooLarge) {
  UserLimits limits;
  limits.result_bytes = 100;
  fake_ledger_.results = {{"ada", 100}, {"bob", 99}};
  EXPECT_THAT(SubmitAs("ada", limits), Fails(kResourceExhausted, "100 bytes"));
  const std::string id = SubmitAs("bob", limits)->job.id;
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  fake_ledger_.results["bob"] = 101;
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Retry(id, false, limits).status()));
  EXPECT_EQ(StateOf(id), State::kCancelled);
  // Nobody adds up results where there is no limit.
  fake_ledger_.asked = 0;
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
  EXPECT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(fake_ledger_.asked, 0);
}

TEST_F(SchedulerLimitsTest, TheInputsOfAJobCountForItsOwner) {
  const std::string blob = base::Sha256Hex("rows");
  blobs_.present = {blob};
  SubmitRequest request = Request();
  request.spec_json =
      R"({"model": "org/tiny", "dataset": {"train": ["a.jsonl", "b.jsonl"]}})";
  request.inputs = {{"a.jsonl", blob}, {"b.jsonl", blob}};
  request.owner = "ada";
  ASSERT_TRUE(scheduler_->Submit(request).ok());
  EXPECT_THAT(fake_ledger_.used["ada"], ElementsAre(blob));
  fake_ledger_.use = absl::ResourceExhaustedError("too many bytes");
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Submit(request).status()));
  EXPECT_EQ(files_.specs.size(), 1u) << "nothing is made for a refused job";
}

class SchedulerRemovalTest : public SchedulerFixture {
 protected:
  // Keeps records on a disk that is full for full_ tries, of jobs whose row is
  // there.
  void KeepRecords() {
    keep_record_ = [this](const std::string& job_id) {
      if (full_-- > 0) return absl::ResourceExhaustedError("the disk is full");
      if (store_.Get(job_id).ok()) written_.push_back(job_id);
      return absl::OkStatus();
    };
    Restart();
  }
  int full_ = 0;
  std::vector<std::string> written_;
  // A job that was cancelled.
  std::string Ended() {
    const std::string id = Submit();
    EXPECT_TRUE(scheduler_->Cancel(id).ok());
    return id;
  }
  absl::Time EndOf(const std::string& id) { return *Stored(id).end_time; }
  // Whether the folder of the job is there.
  bool HasFolder(const std::string& id) { return files_.specs.contains(id); }
  // Submits a job that names a file in the folder of another.
  absl::Status SubmitFrom(const std::string& id) {
    SubmitRequest request;
    const std::string path = "/state/jobs/" + id + "/out/predictions.jsonl";
    files_.paths.insert(path);
    request.spec_json =
        R"({"model": "org/tiny", "dataset": {"train": ")" + path + R"("}})";
    return scheduler_->Submit(request).status();
  }
};

TEST_F(SchedulerRemovalTest, ARuleRemovesWhatMayGo) {
  const std::string id = Ended();
  folders_.Begin();
  folders_.Set(1000, {{id, 100, 0}});
  const auto freed = Ok(scheduler_->RemoveJob(id, EndOf(id)));
  EXPECT_EQ(freed, 42);
  EXPECT_EQ(kept_.asked.size(), 1u);
  EXPECT_TRUE(absl::IsNotFound(store_.Get(id).status()));
  EXPECT_FALSE(HasFolder(id));
  EXPECT_EQ(folders_.TotalBytes(), 900);
  EXPECT_THAT(log_, Contains("job " + id + ": deleted"));
}

TEST_F(SchedulerRemovalTest, ARuleRemovesNothingThatIsNeeded) {
  const std::string id = Ended();
  kept_.refusals[id] = absl::FailedPreconditionError("it is needed");
  for (const auto& removed : {scheduler_->RemoveJob(id, EndOf(id)),
                              scheduler_->RemoveCheckpoints(id, EndOf(id))}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(removed.status()));
  }
  EXPECT_TRUE(store_.Get(id).ok());
  EXPECT_TRUE(HasFolder(id));
  EXPECT_TRUE(files_.without_checkpoints.empty());
  EXPECT_TRUE(files_.marked.empty());
  // A person is asked for nothing but what Delete always asks.
  EXPECT_TRUE(scheduler_->Delete(id).ok());
}

TEST_F(SchedulerRemovalTest, AJobThatHasNotEndedStays) {
  const std::string running = Start();
  const std::string queued = Submit();
  for (const std::string& id : {running, queued}) {
    EXPECT_FALSE(scheduler_->RemoveJob(id, clock_.Now()).ok());
    EXPECT_TRUE(HasFolder(id));
  }
  // Until the end is stored the attempt holds the files.
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_TRUE(absl::IsUnavailable(
      scheduler_->RemoveCheckpoints(running, clock_.Now()).status()));
  EXPECT_TRUE(files_.without_checkpoints.empty());
}

TEST_F(SchedulerRemovalTest, CheckpointsGoAndTheJobStays) {
  const std::string id = Ended();
  folders_.Begin();
  folders_.Set(1000, {{id, 100, 60}});
  const auto freed = Ok(scheduler_->RemoveCheckpoints(id, EndOf(id)));
  EXPECT_EQ(freed, 17);
  EXPECT_THAT(kept_.forgotten, Contains(id));
  EXPECT_THAT(files_.without_checkpoints, Contains(id));
  EXPECT_TRUE(store_.Get(id).ok());
  EXPECT_EQ(folders_.TotalBytes(), 940);
}

// The worker would read what is being removed.
TEST_F(SchedulerRemovalTest, WhileCheckpointsGoTheJobIsNotTriedAgain) {
  const std::string id = Ended();
  absl::Status retried, pinned;
  files_.on_remove_checkpoints = [&] {
    retried = scheduler_->Retry(id).status();
    pinned = scheduler_->SetPinned(id, true).status();
  };
  ASSERT_TRUE(scheduler_->RemoveCheckpoints(id, EndOf(id)).ok());
  EXPECT_TRUE(absl::IsAborted(retried)) << retried;
  EXPECT_TRUE(absl::IsAborted(pinned)) << pinned;
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_TRUE(scheduler_->Retry(id).ok());
}

TEST_F(SchedulerRemovalTest, WhileCheckpointsGoOtherJobsDo) {
  const std::string id = Ended(), other = Ended();
  absl::Status deleted, same;
  files_.on_remove_checkpoints = [&] {
    deleted = scheduler_->Delete(other).status();
    same = scheduler_->Delete(id).status();
  };
  ASSERT_TRUE(scheduler_->RemoveCheckpoints(id, EndOf(id)).ok());
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_TRUE(absl::IsAborted(same)) << same;
  EXPECT_TRUE(scheduler_->Delete(id).ok());
}

// The files are there when the submission looks, and gone when its row comes.
TEST_F(SchedulerRemovalTest, ASubmissionDoesNotMissWhatARuleRemovesMeanwhile) {
  const std::string id = Ended();
  absl::StatusOr<int64_t> removed = 0;
  files_.on_create = [&] {
    removed = scheduler_->RemoveJob(id, EndOf(id));
    files_.on_create = {};
  };
  const absl::Status submitted = SubmitFrom(id);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_THAT(submitted, Fails(kAborted, "files of job " + id +
                                             " were removed meanwhile"));
  EXPECT_EQ(store_.Ids()->size(), 0u);
  EXPECT_TRUE(files_.specs.empty()) << "nothing is left of the submission";
}

TEST_F(SchedulerRemovalTest, AJobGoesOnceItsRecordIsWritten) {
  KeepRecords();
  const std::string deleted = Ended(), collected = Ended();
  ASSERT_TRUE(scheduler_->Delete(deleted).ok());
  ASSERT_TRUE(scheduler_->RemoveJob(collected, EndOf(collected)).ok());
  EXPECT_THAT(written_, testing::ElementsAre(deleted, collected));
  // Nothing is written for a job that stays.
  const std::string stays = Ended();
  kept_.refusals[stays] = absl::FailedPreconditionError("it is needed");
  EXPECT_FALSE(scheduler_->RemoveJob(stays, EndOf(stays)).ok());
  EXPECT_THAT(written_, testing::SizeIs(2));
}

TEST_F(SchedulerRemovalTest, AFullDiskKeepsNoJobFromGoing) {
  KeepRecords();
  full_ = 1;
  files_.make_room = [] { return true; };
  const std::string first = Ended(), second = Ended();
  ASSERT_TRUE(scheduler_->Delete(first).ok());
  EXPECT_THAT(written_, testing::ElementsAre(first));
  full_ = 2;
  ASSERT_TRUE(scheduler_->Delete(second).ok());
  EXPECT_THAT(written_, testing::SizeIs(1));
  EXPECT_THAT(log_,
              Contains(HasSubstr("job " + second +
                                 " is removed without a record: the disk")));
}

TEST_F(SchedulerRemovalTest, APinnedJobIsKeptFromDelete) {
  const std::string id = Ended();
  ASSERT_TRUE(scheduler_->SetPinned(id, true).ok());
  EXPECT_THAT(kept_.pinned, Contains(id));
  ASSERT_TRUE(scheduler_->SetPinned(id, false).ok());
  EXPECT_THAT(kept_.pinned, testing::Not(Contains(id)));
}

}  // namespace
}  // namespace mpsd::jobs
