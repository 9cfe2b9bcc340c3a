// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_users.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

class JobUsersTest : public testing::Test {
 protected:
  std::string User(const std::string& id) {
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    return UserOf(c, id);
  }
  jobs::Job Put(int number, const std::string& spec) {
    jobs::Job job = QueuedJob(number);
    job.spec_json = spec;
    EXPECT_TRUE(store_.Insert(job, StateEvent(job, 1)).ok());
    return job;
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore store_{*database_};
};

TEST_F(JobUsersTest, PathsAndResultsThatAnUnfinishedJobNames) {
  const std::string id = Put(1, "{}").id, other = Put(2, "{}").id;
  EXPECT_EQ(User(id), "");
  jobs::Job by_path =
      Put(3, absl::StrCat(R"({"adapter": "/s/jobs/)", id, R"(/out/a"})"));
  EXPECT_EQ(User(id), by_path.id);
  EXPECT_EQ(User(other), "");
  by_path.state = jobs::State::kCancelled;
  ASSERT_TRUE(store_.Update(by_path, {}).ok());
  EXPECT_EQ(User(id), "");
  const jobs::Job by_name =
      Put(4, absl::StrCat(R"({"model": "job:)", id, R"("})"));
  EXPECT_EQ(User(id), by_name.id);
  EXPECT_EQ(*store_.UserOf(id), by_name.id);
  EXPECT_EQ(User(by_name.id), "") << "nobody is its own user";
}

// The beginning of an id is not the id.
TEST_F(JobUsersTest, APartOfAnIdIsNoId) {
  const std::string id = Put(1, "{}").id;
  Put(2,
      absl::StrCat(R"({"a": "/jobs/)", id, R"(X/", "b": "job:)", id, R"(X"})"));
  EXPECT_EQ(User(id), "");
}

}  // namespace
}  // namespace mpsd::store
