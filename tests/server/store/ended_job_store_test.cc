// SPDX-License-Identifier: Apache-2.0
#include "server/store/ended_job_store.h"

#include <string>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EndedJobStoreTest : public testing::Test {
 protected:
  jobs::Job Insert(int number) {
    jobs::Job job = QueuedJob(number);
    EXPECT_TRUE(jobs_.Insert(job, StateEvent(job, 1)).ok());
    return job;
  }
  void Move(jobs::Job& job, State state, const std::string& message = "") {
    job.state = state;
    job.message = message;
    if (jobs::IsFinal(state)) job.end_time = absl::FromUnixMicros(77);
    EXPECT_TRUE(jobs_.Update(job, {}).ok());
  }
  std::vector<jobs::EndedJob> After(int64_t number, int limit = 100) {
    auto ends = ends_.After(number, limit);
    EXPECT_TRUE(ends.ok()) << ends.status();
    return *ends;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore jobs_{*database_};
  EndedJobStore ends_{*database_};
};

TEST_F(EndedJobStoreTest, HasEachEndAsItWas) {
  jobs::Job job = Insert(1);
  Move(job, State::kRunning);
  EXPECT_THAT(After(0), IsEmpty());
  Move(job, State::kFailed, "first");
  Move(job, State::kQueued);
  Move(job, State::kRunning);
  Move(job, State::kSucceeded, "second");
  const auto ends = After(0);
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(ends[0].job_id, job.id);
  EXPECT_EQ(ends[0].state, State::kFailed);
  EXPECT_EQ(ends[0].message, "first");
  EXPECT_EQ(ends[0].time, absl::FromUnixMicros(77));
  EXPECT_EQ(ends[1].state, State::kSucceeded);
  EXPECT_LT(ends[0].number, ends[1].number);
}

TEST_F(EndedJobStoreTest, AChangeThatEndsNothingAddsNothing) {
  jobs::Job job = Insert(1);
  Move(job, State::kCancelled);
  EXPECT_THAT(After(0), SizeIs(1));
  Move(job, State::kCancelled, "again");
  EXPECT_THAT(After(0), SizeIs(1));
}

TEST_F(EndedJobStoreTest, ARowThatCannotBeReadEndsToo) {
  Insert(1);
  EXPECT_TRUE(
      jobs_.MarkUnreadable(QueuedJob(1).id, "no sense", absl::FromUnixMicros(5))
          .ok());
  const auto ends = After(0);
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(ends[0].state, State::kFailed);
  EXPECT_EQ(ends[0].message, "no sense");
}

TEST_F(EndedJobStoreTest, ComesInPiecesAndForgets) {
  for (int i = 1; i <= 5; ++i) {
    jobs::Job job = Insert(i);
    Move(job, State::kCancelled);
  }
  const auto first = After(0, 2);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_THAT(After(first[1].number), SizeIs(3));
  EXPECT_TRUE(ends_.Forget(first[0].number).ok());
  EXPECT_TRUE(ends_.Forget(first[0].number).ok());
  EXPECT_THAT(After(0), SizeIs(4));
}

TEST_F(EndedJobStoreTest, NumbersAreNotUsedTwiceAfterARestart) {
  jobs::Job job = Insert(1);
  Move(job, State::kCancelled);
  const int64_t number = After(0)[0].number;
  EXPECT_TRUE(ends_.Forget(number).ok());
  database_ = nullptr;
  std::unique_ptr<Database> again = OpenOrDie(scratch_.file());
  SqliteJobStore jobs(*again);
  job.state = State::kQueued;
  EXPECT_TRUE(jobs.Update(job, {}).ok());
  job.state = State::kCancelled;
  EXPECT_TRUE(jobs.Update(job, {}).ok());
  auto ends = EndedJobStore(*again).After(0, 9);
  ASSERT_TRUE(ends.ok());
  ASSERT_THAT(*ends, SizeIs(1));
  EXPECT_GT((*ends)[0].number, number);
}

TEST_F(EndedJobStoreTest, AJobThatIsDeletedTakesItsEndsAlong) {
  jobs::Job job = Insert(1);
  Move(job, State::kCancelled);
  EXPECT_TRUE(jobs_.Delete(job.id).ok());
  EXPECT_THAT(After(0), IsEmpty());
  absl::MutexLock lock(&database_->reader().mutex());
  Query rows(database_->reader(), "SELECT count(*) FROM ended_jobs");
  rows.Next();
  EXPECT_EQ(rows.Int(), 0);
}

}  // namespace
}  // namespace mpsd::store
