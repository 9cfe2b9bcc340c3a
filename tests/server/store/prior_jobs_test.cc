// SPDX-License-Identifier: Apache-2.0
#include "server/store/prior_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using ::testing::ElementsAre;

class PriorJobsTest : public testing::Test {
 protected:
  void Insert(const jobs::Job& job) {
    absl::Status status = store_->Insert(job, StateEvent(job, 1));
    ASSERT_TRUE(status.ok()) << status;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  std::unique_ptr<SqliteJobStore> store_ =
      std::make_unique<SqliteJobStore>(*database_);
};

TEST_F(PriorJobsTest, TellsTheStatesOfThoseThatExist) {
  jobs::Job a = QueuedJob(1), b = QueuedJob(2);
  b.state = State::kSucceeded;
  Insert(a);
  Insert(b);
  const std::vector<std::string> ids = {a.id, "none", b.id, a.id, ""};
  const auto states = store_->StatesOf(ids);
  ASSERT_TRUE(states.ok()) << states.status();
  EXPECT_EQ(*states, (std::map<std::string, State>{{a.id, State::kQueued},
                                                   {b.id, State::kSucceeded}}));
}

TEST_F(PriorJobsTest, WhoWaitedForADeletedSuccessWaitsNoLonger) {
  jobs::Job done = QueuedJob(1), failed = QueuedJob(2), other = QueuedJob(3);
  done.state = State::kSucceeded;
  failed.state = State::kFailed;
  jobs::Job waiting = QueuedJob(4), ended = QueuedJob(5);
  waiting.after = {done.id, failed.id, other.id};
  ended.after = {done.id};
  ended.state = State::kCancelled;
  for (const auto& job : {done, failed, other, waiting, ended}) Insert(job);
  ASSERT_TRUE(store_->Delete(done.id).ok());
  EXPECT_THAT(store_->Get(waiting.id)->after, ElementsAre(failed.id, other.id));
  EXPECT_THAT(store_->Get(ended.id)->after, ElementsAre(done.id));
  // It never succeeded: who waits for it is held, and says so.
  ASSERT_TRUE(store_->Delete(failed.id).ok());
  EXPECT_THAT(store_->Get(waiting.id)->after, ElementsAre(failed.id, other.id));
}

// A list that somebody spoilt keeps nobody from deleting.
TEST_F(PriorJobsTest, ADamagedListIsLeftAlone) {
  jobs::Job done = QueuedJob(1), waiting = QueuedJob(2);
  done.state = State::kSucceeded;
  waiting.after = {done.id};
  Insert(done);
  Insert(waiting);
  {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec("UPDATE jobs SET after_jobs = after_jobs || ']'");
  }
  EXPECT_TRUE(store_->Delete(done.id).ok());
}

}  // namespace
}  // namespace mpsd::store
