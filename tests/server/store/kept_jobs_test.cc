// SPDX-License-Identifier: Apache-2.0
#include "server/store/kept_jobs.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/connection.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::Job;
using jobs::State;
using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::Fails;

const absl::Time kEnd = absl::FromUnixSeconds(1'800'000'000);

std::string Id(int number) { return QueuedJob(number).id; }

class KeptJobsTest : public StoreFixture {
 protected:
  Job Add(int number, const std::string& owner, State state,
          const std::string& spec = "{}",
          const std::vector<std::string>& after = {}) {
    Job job = QueuedJob(number);
    job.owner = owner;
    job.state = state;
    job.spec_json = spec;
    job.after = after;
    job.create_time = kEnd - absl::Hours(1);
    if (jobs::IsFinal(state)) job.end_time = EndOf(number);
    return Insert(job);
  }
  static absl::Time EndOf(int number) {
    return kEnd + number * absl::Seconds(1);
  }
  // "owner: number number(bound)".
  std::vector<std::string> Ended() {
    absl::StatusOr<std::vector<jobs::KeptOwner>> owners = kept_.Ended();
    EXPECT_TRUE(owners.ok()) << owners.status();
    std::vector<std::string> told;
    for (const jobs::KeptOwner& owner : *owners) {
      std::string text = owner.name + ":";
      for (const jobs::KeptJob& job : owner.jobs) {
        const auto named = kept_.Names({job.number});
        absl::StrAppend(&text, " ", std::stoi(named->at(0).id.substr(3)),
                        job.bound ? "!" : "");
      }
      told.push_back(text);
    }
    return told;
  }
  absl::Status MayRemove(int number) {
    return kept_.MayRemove(Id(number), EndOf(number));
  }

  KeptJobs kept_{*database_};
};

TEST_F(KeptJobsTest, TheJobsThatHaveEndedByOwnerAndEnd) {
  EXPECT_THAT(Ended(), IsEmpty());
  Add(1, "bob", State::kSucceeded);
  Add(4, "ada", State::kFailed);
  Add(2, "ada", State::kCancelled);
  Add(3, "ada", State::kQueued);
  Add(5, "", State::kSucceeded);
  EXPECT_THAT(Ended(), ElementsAre(": 5", "ada: 2 4", "bob: 1"));
  const auto owners = *kept_.Ended();
  EXPECT_EQ(owners[1].jobs[0].ended, EndOf(2));
  EXPECT_FALSE(owners[1].jobs[1].succeeded);
  EXPECT_TRUE(owners[2].jobs[0].succeeded);
}

TEST_F(KeptJobsTest, NamesInOrderWithoutThoseThatAreGone) {
  Add(1, "ada", State::kSucceeded);
  Add(2, "ada", State::kSucceeded);
  const auto owners = *kept_.Ended();
  const int64_t first = owners[0].jobs[0].number;
  const int64_t second = owners[0].jobs[1].number;
  const auto named = *kept_.Names({second, 77, first});
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].id, Id(2));
  EXPECT_EQ(named[0].name, "job 2");
  EXPECT_EQ(named[1].id, Id(1));
}

TEST_F(KeptJobsTest, WhatOthersNeedIsBound) {
  for (int i = 1; i <= 7; ++i) Add(i, "ada", State::kSucceeded);
  const std::string inside = "/jobs/" + Id(1) + "/out/adapter";
  Add(20, "ada", State::kQueued, R"({"adapter": "/state)" + inside + "\"}");
  Add(21, "bob", State::kRunning, R"({"model": "job:)" + Id(2) + "\"}");
  Add(22, "bob", State::kQueued, "{}", {Id(3), Id(999)});
  // Those that have ended need nothing, and uploads are in the own folder.
  Add(23, "bob", State::kFailed, R"({"model": "job:)" + Id(4) + "\"}", {Id(5)});
  Add(24, "ada", State::kQueued,
      R"({"train": "/state/jobs/)" + Id(24) + "/inputs/x\"}");
  ASSERT_TRUE(kept_.SetPinned(Id(6), true).ok());
  EXPECT_THAT(Ended(), ElementsAre("ada: 1! 2! 3! 4 5 6! 7", "bob: 23"));
  const struct {
    int number;
    std::string why;
  } refused[] = {{1, Id(20) + ", which has not ended, uses files of"},
                 {2, Id(21) + ", which has not ended, uses files of"},
                 {3, Id(22) + ", which has not ended, waits for"},
                 {6, "is pinned"},
                 {20, "is QUEUED: cancel it"}};
  for (const auto& [number, why] : refused) {
    EXPECT_THAT(MayRemove(number),
                Fails(absl::StatusCode::kFailedPrecondition, why));
    EXPECT_FALSE(kept_.ForgetCheckpoints(Id(number), EndOf(number)).ok());
  }
  for (int number : {4, 5, 7}) EXPECT_TRUE(MayRemove(number).ok()) << number;
  // A person may delete what another job waits for, and nothing else.
  EXPECT_TRUE(kept_.MayDelete(Id(3)).ok());
  EXPECT_TRUE(kept_.MayDelete(Id(4)).ok());
  for (int number : {1, 2, 6, 20, 99}) {
    EXPECT_FALSE(kept_.MayDelete(Id(number)).ok()) << number;
  }
  // Once those have ended, and the pin is gone.
  for (int number : {20, 22}) {
    Job job = *jobs_.Get(Id(number));
    job.state = State::kCancelled;
    job.end_time = EndOf(number);
    Update(job);
  }
  ASSERT_TRUE(kept_.SetPinned(Id(6), false).ok());
  EXPECT_THAT(Ended(), ElementsAre("ada: 1 2! 3 4 5 6 7 20", "bob: 22 23"));
}

TEST_F(KeptJobsTest, AJobThatEndedAtAnotherTimeIsAnotherMatter) {
  Add(1, "ada", State::kFailed);
  EXPECT_TRUE(MayRemove(1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      kept_.MayRemove(Id(1), EndOf(1) - absl::Microseconds(1))));
  EXPECT_TRUE(absl::IsNotFound(kept_.MayRemove(Id(2), EndOf(2))));
}

TEST_F(KeptJobsTest, APinKeepsTheRowFromDelete) {
  Add(1, "ada", State::kFailed);
  EXPECT_TRUE(absl::IsNotFound(kept_.SetPinned(Id(2), true)));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(kept_.SetPinned(Id(1), true).ok());
  EXPECT_TRUE(jobs_.Get(Id(1))->pinned);
  EXPECT_THAT(jobs_.Delete(Id(1)),
              Fails(absl::StatusCode::kFailedPrecondition, "mpsctl unpin"));
  EXPECT_TRUE(jobs_.Get(Id(1)).ok());
  // A change of the row by a worker's reports leaves the pin alone.
  Job job = *jobs_.Get(Id(1));
  job.pinned = false;
  job.stored_bytes = 77;
  Update(job);
  EXPECT_TRUE(jobs_.Get(Id(1))->pinned);
  EXPECT_EQ(jobs_.Get(Id(1))->stored_bytes, 0);
  ASSERT_TRUE(kept_.SetPinned(Id(1), false).ok());
  EXPECT_TRUE(jobs_.Delete(Id(1)).ok());
}

TEST_F(KeptJobsTest, BytesAreStoredAndCheckpointsForgotten) {
  const Job job = Add(1, "ada", State::kFailed);
  ASSERT_TRUE(kept_.SetBytes({{Id(1), 100, 60}, {Id(2), 5, 5}}).ok());
  ASSERT_TRUE(kept_.SetBytes({{Id(1), 100, 60}}).ok());
  EXPECT_EQ(jobs_.Get(Id(1))->stored_bytes, 100);
  ASSERT_TRUE(jobs_.AddCheckpoint(Id(1), {{3, "/step-3"}, {}}).ok());
  Job advanced = job;
  advanced.durable_step = 3;
  Update(advanced);
  auto kept = (*kept_.Ended())[0].jobs[0];
  EXPECT_EQ(kept.bytes, 100);
  EXPECT_EQ(kept.checkpoint_bytes, 60);
  absl::Status forgotten = kept_.ForgetCheckpoints(Id(1), EndOf(1));
  ASSERT_TRUE(forgotten.ok()) << forgotten;
  kept = (*kept_.Ended())[0].jobs[0];
  EXPECT_EQ(kept.bytes, 40);
  EXPECT_EQ(kept.checkpoint_bytes, 0);
  EXPECT_THAT(*jobs_.Checkpoints(Id(1)), IsEmpty());
  EXPECT_EQ(jobs_.Get(Id(1))->durable_step, 0);
}

// 100,000 jobs that have ended, with specs as long as real ones, and 10,000
// that have not; read by a plan with the rows' indexes alone.
TEST_F(KeptJobsTest, AHundredThousandJobsAreReadWithoutTheirRows) {
  {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Transaction transaction(c);
    Query(c,
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
          "WHERE i < 110000) INSERT INTO jobs (id, name, state, "
          "cancel_requested, owner, priority, create_time_us, end_time_us, "
          "attempt, failures, message, output_path, spec_json, request_hash, "
          "stored_bytes, stored_checkpoint_bytes) SELECT "
          "'01KAH' || printf('%021d', i), 'name', "
          "CASE WHEN i > 100000 THEN 1 ELSE 3 + i % 3 END, 0, "
          "'user' || (i % 20), 0, i, CASE WHEN i <= 100000 THEN "
          "1800000000000000 + i END, 1, 0, '', '', "
          "'{\"train\": \"/state/jobs/01KAH' || printf('%021d', i) || "
          "'/inputs/train.jsonl\", \"x\": \"' || hex(zeroblob(1000)) || "
          "'\"}', '', 1000 + i, 500 FROM n")
        .Run();
    transaction.Commit();
  }
  const base::Clock& clock = base::Clock::Real();
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Duration start = clock.Monotonic();
    const auto owners = kept_.Ended();
    best = std::min(best, clock.Monotonic() - start);
    ASSERT_TRUE(owners.ok()) << owners.status();
    EXPECT_EQ(owners->size(), 20u);
    size_t count = 0;
    for (const jobs::KeptOwner& owner : *owners) count += owner.jobs.size();
    EXPECT_EQ(count, 100'000u);
  }
  std::printf("read 100,000 jobs that have ended in %.1f ms\n",
              absl::ToDoubleMilliseconds(best));
  // What grew with the square of the jobs would take minutes.
  EXPECT_LT(best, absl::Seconds(5));
}

}  // namespace
}  // namespace mpsd::store
