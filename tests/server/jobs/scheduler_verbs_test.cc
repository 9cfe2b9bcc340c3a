// SPDX-License-Identifier: Apache-2.0

#include <map>
#include <optional>

#include "core/base/sha256.h"
#include "core/spec/train_spec.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

// What people do to queued jobs and to the queue (hold, release, move, drain),
// what the limits of a user refuse, what is removed and what is kept from that,
// and jobs that wait for others and start from their results.

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

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
        scheduler_->Cancel("X"), scheduler_->remover().SetPinned("X", true)}) {
    EXPECT_THAT(unknown, Fails(kNotFound));
  }
}

TEST_F(SchedulerVerbsTest, WhatIsNotStoredIsNotDone) {
  const std::string first = Submit(), second = Submit();
  db_->FillDisk();
  EXPECT_FALSE(scheduler_->Hold(first, "by ann").ok());
  EXPECT_FALSE(scheduler_->Move(second, kTop).ok());
  EXPECT_FALSE(scheduler_->DrainQueue("by ann").ok());
  db_->FreeDisk();
  EXPECT_FALSE(board_->Info().drained);
  EXPECT_EQ(board_->QueuePosition(first), 0);
  EXPECT_EQ(Next(), first);
}

TEST_F(SchedulerVerbsTest, ACancelOnAFullDiskGetsRoom) {
  const std::string running = Start(), waiting = Submit();
  files_.make_room = [this] { return db_->FreeDisk(), true; };
  for (const std::string& id : {waiting, running}) {
    db_->FillDisk();
    EXPECT_TRUE(scheduler_->Cancel(id).ok()) << id;
  }
  EXPECT_EQ(Stored(waiting).state, State::kCancelled);
  EXPECT_TRUE(Stored(running).cancel_requested);
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
  db_->FillDisk();
  launcher_.Exit(ExitReason::kCrashed);
  db_->FreeDisk();
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
TEST_F(SchedulerVerbsTest, AHeldJobDoesNotCountAsWaiting) {
  const std::string id = Submit();
  ASSERT_TRUE(scheduler_->Hold(id, "by ann").ok());
  EXPECT_EQ(exported_metrics_.queue.oldest, std::nullopt);
  EXPECT_EQ(exported_metrics_.queue.by_priority.at(0), 1);
  clock_.Advance(absl::Hours(48));
  ASSERT_TRUE(scheduler_->Release(id).ok());
  EXPECT_EQ(exported_metrics_.queue.oldest, clock_.Now());
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
  EXPECT_THAT(Order(), ElementsAre(c1, a1, a2, b1)) << "after all later jobs";
  // The owner's own word puts it among the owner's jobs again.
  ASSERT_TRUE(scheduler_->Move(b1, kTop).ok());
  EXPECT_THAT(Order(), ElementsAre(c1, a1, b1, a2));
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

TEST_F(SchedulerVerbsTest, ADrainedDaemonStartsNothingUntilItIsUndrained) {
  const std::string first = Start();
  ASSERT_TRUE(scheduler_->DrainQueue("replaced by the next").ok());
  ASSERT_TRUE(scheduler_->DrainQueue("mpsd is drained by root: a disk").ok());
  const std::string second = Submit();
  EXPECT_EQ(Running(), first) << "the running job continues";
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

TEST_F(SchedulerVerbsTest, NoJobTakesTheDeviceOfADrainedDaemon) {
  Start();
  Worker().OnProgress(Step(1));
  ASSERT_TRUE(scheduler_->DrainQueue("by root").ok());
  Submit(9);
  After(absl::Hours(1));
  EXPECT_EQ(launcher_.preempted, 0);
}

class SchedulerLimitsTest : public SchedulerFixture {
 protected:
  SchedulerLimitsTest() {
    ledger_ = &users_;
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

  std::map<std::string, int64_t> folder_bytes_;  // by job
  int measured_ = 0;
  UserLedger users_{db_->database(), [this](const std::string& id) {
                      ++measured_;
                      return folder_bytes_[id];
                    }};
};

TEST_F(SchedulerLimitsTest, AUserHasSoManyJobsInTheQueue) {
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  EXPECT_THAT(
      SubmitAs("ada", Queued(2)),
      Fails(kResourceExhausted, "ada has 2 jobs in the queue, 2 are allowed"));
  EXPECT_EQ(files_.specs.size(), 2u) << "a refused job leaves no trace";
  // Others have limits of their own, and admins no limits.
  EXPECT_TRUE(SubmitAs("bob", Queued(1)).ok());
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
  // A job that runs is in the queue no more.
  scheduler_->Tick();
  EXPECT_TRUE(SubmitAs("ada", Queued(3)).ok());
  EXPECT_FALSE(SubmitAs("ada", Queued(3)).ok());
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
  folder_bytes_[SubmitAs("ada", limits)->job.id] = 100;
  EXPECT_THAT(SubmitAs("ada", limits), Fails(kResourceExhausted, "100 bytes"));
  const std::string id = SubmitAs("bob", limits)->job.id;
  folder_bytes_[id] = 99;
  EXPECT_TRUE(SubmitAs("bob", limits).ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  folder_bytes_[id] = 101;
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Retry(id, false, limits).status()));
  EXPECT_EQ(StateOf(id), State::kCancelled);
  // Results are not added up if there is no limit.
  measured_ = 0;
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
  EXPECT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(measured_, 0);
}

TEST_F(SchedulerLimitsTest, TheInputsOfAJobCountForItsOwner) {
  const std::string blob = base::Sha256Hex("rows");
  blobs_.present = {blob};
  db_->Execute("INSERT INTO blobs VALUES ('" + blob + "', 4, 0)");
  SubmitRequest request = Request();
  request.spec_json =
      R"({"model": "org/tiny", "dataset": {"train": ["a.jsonl", "b.jsonl"]}})";
  request.inputs = {{"a.jsonl", blob}, {"b.jsonl", blob}};
  request.owner = "ada";
  ASSERT_TRUE(scheduler_->Submit(request).ok());
  EXPECT_TRUE(users_.Holds("ada", blob).value());
  request.owner = "bob";
  request.limits.upload_bytes = 3;
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(scheduler_->Submit(request),
              Fails(kResourceExhausted, "4 bytes would be added, 3 bytes"));
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
  const auto freed = Ok(scheduler_->remover().RemoveJob(id, EndOf(id)));
  EXPECT_EQ(freed, 42);
  EXPECT_TRUE(absl::IsNotFound(store_.Get(id).status()));
  EXPECT_FALSE(HasFolder(id));
  EXPECT_EQ(folders_.TotalBytes(), 900);
  EXPECT_THAT(log_, Contains("job " + id + ": deleted"));
}

TEST_F(SchedulerRemovalTest, ARuleRemovesNothingThatIsNeeded) {
  const std::string id = Submit();
  SubmitRequest waits = Request();
  waits.after = {id};
  ASSERT_TRUE(scheduler_->Submit(waits).ok());
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  for (const auto& removed :
       {scheduler_->remover().RemoveJob(id, EndOf(id)),
        scheduler_->remover().RemoveCheckpoints(id, EndOf(id))}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(removed.status()));
  }
  EXPECT_TRUE(store_.Get(id).ok());
  EXPECT_TRUE(HasFolder(id));
  EXPECT_TRUE(files_.without_checkpoints.empty());
  EXPECT_TRUE(files_.marked.empty());
  // A person is asked for nothing but what Delete always asks.
  EXPECT_TRUE(scheduler_->remover().Delete(id).ok());
}

TEST_F(SchedulerRemovalTest, AJobThatHasNotEndedStays) {
  const std::string running = Start();
  const std::string queued = Submit();
  for (const std::string& id : {running, queued}) {
    EXPECT_FALSE(scheduler_->remover().RemoveJob(id, clock_.Now()).ok());
    EXPECT_TRUE(HasFolder(id));
  }
  // Until the end is stored the attempt holds the files.
  db_->FillDisk();
  launcher_.Exit(ExitReason::kDone);
  EXPECT_TRUE(absl::IsUnavailable(
      scheduler_->remover().RemoveCheckpoints(running, clock_.Now()).status()));
  EXPECT_TRUE(
      absl::IsUnavailable(scheduler_->remover().Delete(running).status()));
  EXPECT_TRUE(files_.without_checkpoints.empty());
  db_->FreeDisk();
  scheduler_->Tick();
  EXPECT_TRUE(scheduler_->remover().Delete(running).ok());
}

TEST_F(SchedulerRemovalTest, CheckpointsGoAndTheJobStays) {
  const std::string id = Ended();
  folders_.Begin();
  folders_.Set(1000, {{id, 100, 60}});
  ASSERT_TRUE(store_.AddCheckpoint(id, {{1, "/c", 5, 0.5}, {}}).ok());
  const auto freed = Ok(scheduler_->remover().RemoveCheckpoints(id, EndOf(id)));
  EXPECT_EQ(freed, 17);
  EXPECT_THAT(*store_.Checkpoints(id), IsEmpty());
  EXPECT_THAT(files_.without_checkpoints, Contains(id));
  EXPECT_TRUE(store_.Get(id).ok());
  EXPECT_EQ(folders_.TotalBytes(), 940);
}

// The worker would read what is being removed.
TEST_F(SchedulerRemovalTest, WhileCheckpointsGoOnlyOtherJobsAreChanged) {
  const std::string id = Ended(), other = Ended();
  absl::Status deleted;
  std::vector<absl::Status> refused;
  files_.on_remove_checkpoints = [&] {
    refused = {scheduler_->Retry(id).status(),
               scheduler_->remover().SetPinned(id, true).status(),
               scheduler_->remover().Delete(id).status()};
    deleted = scheduler_->remover().Delete(other).status();
  };
  ASSERT_TRUE(scheduler_->remover().RemoveCheckpoints(id, EndOf(id)).ok());
  for (const absl::Status& status : refused) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  }
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_EQ(StateOf(id), State::kCancelled);
  EXPECT_TRUE(scheduler_->Retry(id).ok());
}

// The files are there when the submission looks, and gone when its row comes.
TEST_F(SchedulerRemovalTest, ASubmissionDoesNotMissWhatARuleRemovesMeanwhile) {
  const std::string id = Ended();
  absl::StatusOr<int64_t> removed = 0;
  files_.on_create = [&] {
    removed = scheduler_->remover().RemoveJob(id, EndOf(id));
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
  ASSERT_TRUE(scheduler_->remover().Delete(deleted).ok());
  ASSERT_TRUE(
      scheduler_->remover().RemoveJob(collected, EndOf(collected)).ok());
  EXPECT_THAT(written_, testing::ElementsAre(deleted, collected));
  // Nothing is written for a job that stays.
  const std::string stays = Ended();
  ASSERT_TRUE(scheduler_->remover().SetPinned(stays, true).ok());
  EXPECT_FALSE(scheduler_->remover().RemoveJob(stays, EndOf(stays)).ok());
  EXPECT_THAT(written_, testing::SizeIs(2));
}

TEST_F(SchedulerRemovalTest, AFullDiskKeepsNoJobFromGoing) {
  KeepRecords();
  full_ = 1;
  files_.make_room = [] { return true; };
  const std::string first = Ended(), second = Ended();
  ASSERT_TRUE(scheduler_->remover().Delete(first).ok());
  EXPECT_THAT(written_, testing::ElementsAre(first));
  full_ = 2;
  ASSERT_TRUE(scheduler_->remover().Delete(second).ok());
  EXPECT_THAT(written_, testing::SizeIs(1));
  EXPECT_THAT(log_,
              Contains(HasSubstr("job " + second +
                                 " is removed without a record: the disk")));
}

class SchedulerAfterTest : public SchedulerFixture {
 protected:
  absl::StatusOr<SubmitResult> TrySubmit(std::vector<std::string> after,
                                         const std::string& fields = "") {
    SubmitRequest request = Request();
    if (!fields.empty()) {
      request.spec_json =
          R"({"dataset": {"train": "/data/train.jsonl"}, )" + fields + "}";
    }
    request.after = std::move(after);
    auto result = scheduler_->Submit(request);
    clock_.Advance(absl::Milliseconds(1));
    return result;
  }
  std::string SubmitAfter(std::vector<std::string> after,
                          const std::string& fields = "") {
    auto result = TrySubmit(std::move(after), fields);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->job.id : "";
  }
  static std::string Adapter(const std::string& id) {
    return R"("model": "org/tiny", "adapter": "job:)" + id + "\"";
  }
  static std::string Output(const std::string& id) {
    return "/state/jobs/" + id + "/out/adapter";
  }
  static WorkerListener::Result Done(const std::string& output,
                                     OutputKind kind = OutputKind::kAdapter) {
    WorkerListener::Result result;
    result.reason = ExitReason::kDone;
    result.outcome.output_path = output;
    result.outcome.output_kind = kind;
    return result;
  }
  // Ends the running job with a result that is there.
  void Succeed(const std::string& output,
               OutputKind kind = OutputKind::kAdapter) {
    files_.paths.insert(output);
    launcher_.Exit(Done(output, kind));
    scheduler_->Tick();
  }
  // Fails the running job for good.
  void Fail() { End(ExitReason::kRejected); }
  std::string Hold(const std::string& id) { return board_->HoldOf(id); }
  spec::TrainSpec SpecOnDisk(const std::string& id) {
    return *spec::ParseTrainSpec(files_.specs.at(id), "job.json");
  }
};

TEST_F(SchedulerAfterTest, AJobStartsOnceTheOthersHaveSucceeded) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b, a});
  EXPECT_THAT(Stored(c).after, ElementsAre(a, b));
  EXPECT_EQ(Hold(c), "waits for job " + a +
                         ", which is QUEUED, to succeed, and for 1 more");
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), c);
  EXPECT_EQ(Hold(c), "");
}

// A job of higher priority that waits lets others by, and goes first after.
TEST_F(SchedulerAfterTest, OthersRunMeanwhile) {
  const std::string a = Submit();
  SubmitRequest request = Request();
  request.after = {a};
  request.priority = 9;
  const std::string urgent = scheduler_->Submit(request)->job.id;
  const std::string other = Submit();
  EXPECT_EQ(Next(), a);
  // No job takes the device from the job that is waited for.
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), urgent);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), other);
}

TEST_F(SchedulerAfterTest, AFailedOneHoldsThoseThatWait) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({a}), c = SubmitAfter({b});
  scheduler_->Tick();
  Fail();
  ASSERT_EQ(StateOf(a), State::kFailed);
  const Job held = Stored(b);
  EXPECT_EQ(held.state, State::kQueued);
  EXPECT_TRUE(held.held);
  EXPECT_THAT(held.hold_reason,
              HasSubstr("job " + a + " is FAILED, and this job waits"));
  EXPECT_EQ(Hold(b), held.hold_reason);
  // What waits for a held job waits on.
  EXPECT_FALSE(Stored(c).held);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  EXPECT_EQ(Next(), "");
}

TEST_F(SchedulerAfterTest, ACancelledOneHoldsThemToo) {
  const std::string a = Submit(), b = SubmitAfter({a});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_THAT(Hold(b), HasSubstr("is CANCELLED"));
  // However a script is timed, the answer is the same.
  const std::string c = SubmitAfter({a});
  EXPECT_THAT(Hold(c), HasSubstr("is CANCELLED"));
  EXPECT_EQ(Next(), "");
  EXPECT_TRUE(Stored(c).held);
}

TEST_F(SchedulerAfterTest, AnIdThatIsNoJobsIsRefused) {
  for (const std::string id : {"nobody", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}) {
    EXPECT_THAT(TrySubmit({id}), Fails(absl::StatusCode::kFailedPrecondition,
                                       "after: there is no job '" + id + "'"));
  }
  EXPECT_THAT(files_.specs, IsEmpty());
}

TEST_F(SchedulerAfterTest, JobsOfOthersThatAreHiddenDoNotExist) {
  const std::string a = Submit();
  SubmitRequest request = Request();
  request.may_read_job = [](const std::string&) { return false; };
  request.after = {a};
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler_->Submit(request).status()));
  request.after.clear();
  request.spec_json =
      R"({"dataset": {"train": "/data/train.jsonl"}, )" + Adapter(a) + "}";
  EXPECT_THAT(scheduler_->Submit(request),
              Fails(absl::StatusCode::kFailedPrecondition,
                    "adapter: there is no job " + a));
}

TEST_F(SchedulerAfterTest, AKillForgetsNothing) {
  const std::string a = Submit(), b = SubmitAfter({a});
  KillAndRestart();
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
}

// The end of `a` is stored, and mpsd dies before it holds `b`.
TEST_F(SchedulerAfterTest, AKillBeforeTheHoldIsStored) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kRejected);
  ASSERT_EQ(StateOf(a), State::kFailed);
  ASSERT_FALSE(Stored(b).held);
  KillAndRestart();
  EXPECT_THAT(Hold(b), HasSubstr("is FAILED"));
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_EQ(Running(), "");
}

// The row of a job that was running says what it is once the store answers.
TEST_F(SchedulerAfterTest, AStoreThatFailsHoldsLater) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  db_->FillDisk();
  Fail();
  EXPECT_FALSE(Stored(b).held);
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  db_->FreeDisk();
  scheduler_->Tick();
  EXPECT_EQ(StateOf(a), State::kFailed);
  EXPECT_TRUE(Stored(b).held);
}

TEST_F(SchedulerAfterTest, ARowThatCannotBeReadIsNoEndlessWait) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  db_->Spoil(b);
  End(ExitReason::kDone);
  scheduler_->Tick();
  EXPECT_EQ(StateOf(b), State::kFailed);
}

// Many wait for one: no call holds the lock for all of them.
TEST_F(SchedulerAfterTest, AThousandThatWaitAreHeldAFewAtATime) {
  const std::string a = Submit();
  std::vector<std::string> waiting;
  for (int i = 0; i < 1000; ++i) waiting.push_back(SubmitAfter({a}));
  scheduler_->Tick();
  const auto held = [&] {
    int count = 0;
    for (const std::string& id : waiting) count += Stored(id).held ? 1 : 0;
    return count;
  };
  Fail();
  int ticks = 1;
  for (int before = -1; held() < 1000; ++ticks) {
    ASSERT_GT(held(), before);
    before = held();
    ASSERT_LE(before, 40 * ticks);
    EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  }
  EXPECT_EQ(Running(), "");
}

TEST_F(SchedulerAfterTest, AResultThatIsToBeIsPlacedAtTheStart) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({}, Adapter(a));
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(SpecOnDisk(b).adapter, "job:" + a);
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  scheduler_->Tick();
  const std::string output = Output(a);
  Succeed(output);
  ASSERT_EQ(Running(), b);
  EXPECT_EQ(SpecOnDisk(b).adapter, output);
  EXPECT_EQ(Stored(b).spec_json, files_.specs.at(b));
  EXPECT_EQ(Stored(b).model, "org/tiny");
  EXPECT_THAT(launcher_.requests.back().results_read,
              ElementsAre("/state/jobs/" + a));
}

TEST_F(SchedulerAfterTest, AResultThatIsThereIsPlacedAtOnce) {
  const std::string a = Start();
  Succeed(Output(a));
  const std::string b = SubmitAfter({}, Adapter(a));
  EXPECT_EQ(SpecOnDisk(b).adapter, Output(a));
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(Next(), b);
  EXPECT_THAT(launcher_.requests.back().results_read,
              ElementsAre("/state/jobs/" + a));
}

TEST_F(SchedulerAfterTest, AModelThatIsToBeIsPlacedToo) {
  const std::string a =
      SubmitAfter({}, R"("model": "org/tiny", "fine_tune_type": "full")");
  const std::string b = SubmitAfter({}, R"("model": "job:)" + a + "\"");
  EXPECT_EQ(Stored(b).model, "job:" + a);
  EXPECT_GT(Stored(b).memory_bytes, 0);
  scheduler_->Tick();
  const std::string output = "/state/jobs/" + a + "/out/model";
  Succeed(output, OutputKind::kModel);
  ASSERT_EQ(Running(), b);
  EXPECT_EQ(SpecOnDisk(b).model, output);
}

// A result that vanished between its job's end and the start.
TEST_F(SchedulerAfterTest, AResultThatIsAwayIsWaitedFor) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  const std::string other = Submit();
  scheduler_->Tick();
  launcher_.Exit(Done(Output(a)));
  EXPECT_EQ(Next(), other);
  EXPECT_THAT(Hold(b), HasSubstr(Output(a) + ", is not on the daemon's disk"));
  End(ExitReason::kDone);
  files_.paths.insert(Output(a));
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(Next(), b);
}

TEST_F(SchedulerAfterTest, AFullDiskAtTheStartIsWaitedOut) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  scheduler_->Tick();
  files_.failure = absl::ResourceExhaustedError("disk full");
  Succeed(Output(a));
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(StateOf(b), State::kQueued);
  EXPECT_THAT(Hold(b), HasSubstr("disk full"));
  files_.failure = absl::OkStatus();
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(Next(), b);
}

// A kill after job.json has the result and before the row says RUNNING.
TEST_F(SchedulerAfterTest, AKillBetweenFileAndRowPlacesAgain) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  scheduler_->Tick();
  files_.paths.insert(Output(a));
  launcher_.Exit(Done(Output(a)));
  spec::TrainSpec placed = SpecOnDisk(b);
  placed.adapter = Output(a);
  files_.specs[b] = spec::ToJson(placed);
  KillAndRestart();
  ASSERT_EQ(Next(), b);
  EXPECT_EQ(SpecOnDisk(b).adapter, Output(a));
  EXPECT_THAT(Stored(b).spec_json, HasSubstr(Output(a)));
}

TEST_F(SchedulerAfterTest, AReleaseEndsTheWaitForWhatFailed) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  ASSERT_TRUE(Stored(c).held);
  ASSERT_TRUE(scheduler_->Release(c).ok());
  EXPECT_THAT(Stored(c).after, ElementsAre(b));
  EXPECT_FALSE(Stored(c).held);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  EXPECT_EQ(Running(), b);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), c);
}

TEST_F(SchedulerAfterTest, AReleasedJobThatNeedsTheResultIsHeldAgain) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Release(b).ok());
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(Running(), "");
  // Once it is tried again, a release waits for it.
  ASSERT_TRUE(scheduler_->Retry(a).ok());
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
}

// A hold of a waiting job takes precedence.
TEST_F(SchedulerAfterTest, AHeldJobThatWaitedWaitsOnOnceReleased) {
  const std::string a = Submit(), b = SubmitAfter({a});
  ASSERT_TRUE(scheduler_->Hold(b, "not today").ok());
  EXPECT_THAT(Hold(b), HasSubstr("not today"));
  EXPECT_EQ(Next(), a);
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  ASSERT_TRUE(scheduler_->Hold(b, "not today").ok());
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), "");
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_EQ(Next(), b);
}

// The prior job is to run again before its successor has started.
TEST_F(SchedulerAfterTest, ASuccessThatIsTakenBackIsWaitedForAgain) {
  const std::string a = Submit(/*priority=*/-1), b = SubmitAfter({a});
  ASSERT_EQ(Next(), a);
  const std::string urgent = Submit(/*priority=*/5);
  End(ExitReason::kDone);
  ASSERT_EQ(Running(), urgent);
  ASSERT_TRUE(scheduler_->Retry(a, /*from_scratch=*/true).ok());
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), a);
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
}

TEST_F(SchedulerAfterTest, WhatIsTriedAgainHasNotFailed) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  EXPECT_EQ(Stored(c).after.size(), 2u);
  ASSERT_TRUE(scheduler_->Retry(a).ok());
  EXPECT_EQ(Next(), a);
}

TEST_F(SchedulerAfterTest, TheRequestIsKept) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({a}, Adapter(a));
  EXPECT_THAT(files_.requests.at(b), HasSubstr("job:" + a));
  EXPECT_THAT(files_.requests.at(b), HasSubstr("\"after\":[\"" + a + "\"]"));
}

// Jobs wait 10 seconds for the check of their data.
class SchedulerCheckTest : public SchedulerFixture {
 protected:
  SchedulerCheckTest() {
    check_patience_ = absl::Seconds(10);
    Restart();
  }
  std::string NextToCheck() {
    return board_->view().NextToCheck().value_or("none");
  }
  // The next job's data turn out to be like that.
  std::string Check(const absl::StatusOr<DataCheck>& check) {
    const std::string id = NextToCheck();
    scheduler_->DataChecked(id, check);
    return id;
  }
  const DataCheck kFault{"train.jsonl:3: a bad row", {}};
  const DataCheck kLoss{"", {"45 of 60 rows dropped: no label"}};
};

TEST_F(SchedulerCheckTest, AJobWithBadDataNeverStarts) {
  const std::string id = Submit(), waits = [&] {
    SubmitRequest request = Request();
    request.after = {id};
    return scheduler_->Submit(request)->job.id;
  }();
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(board_->HoldOf(id), kCheckHold);
  EXPECT_TRUE(board_->view().AwaitsCheck(id));
  EXPECT_EQ(Check(kFault), id);
  EXPECT_EQ(Next(), "");
  const Job job = Stored(id);
  EXPECT_EQ(job.state, State::kFailed);
  EXPECT_EQ(job.exit_reason, ExitReason::kRejected);
  EXPECT_EQ(job.message, kFault.fault);
  EXPECT_EQ(job.attempt, 0);
  EXPECT_THAT(History(id), ElementsAre(State::kQueued, State::kFailed));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  EXPECT_TRUE(Stored(waits).held) << "its prior failed";
  // Its next turn begins with a check, too.
  ASSERT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_TRUE(board_->view().AwaitsCheck(id));
}

TEST_F(SchedulerCheckTest, AJobStartsOnceItsDataAreChecked) {
  const std::string id = Submit();
  changes_ = 0;
  EXPECT_EQ(Check(kLoss), id);
  EXPECT_GT(changes_, 0);
  EXPECT_EQ(board_->HoldOf(id), "");
  EXPECT_EQ(NextToCheck(), "none");
  EXPECT_EQ(Next(), id);
  EXPECT_THAT(Stored(id).warnings, ElementsAre(kLoss.warnings[0]));
  // What cannot be checked runs, and so does what waits for a path.
  const std::string other = Submit();
  EXPECT_EQ(Check(absl::DeadlineExceededError("too slow")), other);
  EXPECT_EQ(StateOf(other), State::kQueued);
  const std::string away = Submit();
  files_.paths.clear();
  EXPECT_EQ(Check(kFault), away);
  EXPECT_EQ(StateOf(away), State::kQueued);
  EXPECT_EQ(LinesWith("its data are read at its start: "), 2);
}

TEST_F(SchedulerCheckTest, ASlowCheckKeepsNoJobWaitingAndALateOneChangesNone) {
  const std::string id = Submit();
  EXPECT_EQ(NextToCheck(), id);
  After(absl::Seconds(9));
  EXPECT_EQ(Running(), "");
  After(absl::Seconds(1));
  EXPECT_EQ(Running(), id);
  EXPECT_FALSE(board_->view().AwaitsCheck(id));
  scheduler_->DataChecked(id, kFault);
  EXPECT_EQ(StateOf(id), State::kRunning);
  const std::string cancelled = Submit();
  EXPECT_EQ(NextToCheck(), cancelled);
  ASSERT_TRUE(scheduler_->Cancel(cancelled).ok());
  scheduler_->DataChecked(cancelled, kFault);
  EXPECT_EQ(StateOf(cancelled), State::kCancelled);
  EXPECT_EQ(NextToCheck(), "none");
}

TEST_F(SchedulerCheckTest, ARestartChecksAgain) {
  const std::string id = Submit(), held = Submit();
  EXPECT_EQ(Check(DataCheck()), id);
  EXPECT_EQ(Next(), id);
  ASSERT_TRUE(scheduler_->Hold(held, "by ann").ok());
  EXPECT_EQ(Check(kLoss), held);
  KillAndRestart();
  EXPECT_FALSE(board_->view().AwaitsCheck(id)) << "it has run";
  EXPECT_EQ(Check(kLoss), held);
  EXPECT_EQ(board_->HoldOf(held), "by ann");
  EXPECT_THAT(Stored(held).warnings, ElementsAre(kLoss.warnings[0]));
}

TEST_F(SchedulerCheckTest, ManyJobsOfOneUserDoNotDelayAnothers) {
  const std::string a1 = SubmitFor("ann"), a2 = SubmitFor("ann"),
                    b1 = SubmitFor("bob"), a3 = SubmitFor("ann", 5);
  EXPECT_EQ(Check(DataCheck()), a3);
  EXPECT_EQ(Check(DataCheck()), b1);
  EXPECT_EQ(Check(DataCheck()), a1);
  EXPECT_EQ(Check(DataCheck()), a2);
}

}  // namespace
}  // namespace mpsd::jobs
