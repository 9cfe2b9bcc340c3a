// SPDX-License-Identifier: Apache-2.0
#include "server/store/model_uses.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ModelUsesTest : public testing::Test {
 protected:
  jobs::Job Insert(int number, const std::string& model,
                   const std::string& folder) {
    jobs::Job job = QueuedJob(number);
    job.model = model;
    job.spec_json = absl::StrCat(R"({"model":")", folder, "\"}");
    EXPECT_TRUE(jobs_.Insert(job, StateEvent(job, 1)).ok());
    return job;
  }
  void Move(jobs::Job& job, State state, int64_t start_us = 0) {
    job.state = state;
    if (start_us != 0) job.start_time = absl::FromUnixMicros(start_us);
    EXPECT_TRUE(jobs_.Update(job, {}).ok());
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore jobs_{*database_};
  ModelUses uses_{*database_};
};

TEST_F(ModelUsesTest, CountsJobsThatHaveNotEnded) {
  EXPECT_THAT(*uses_.All(), IsEmpty());
  jobs::Job first = Insert(1, "m", "/s/1");
  jobs::Job second = Insert(2, "m", "/s/2");
  jobs::Job other = Insert(3, "org/n", "/s/3");
  EXPECT_EQ((*uses_.All())["m"].unfinished, 2);
  EXPECT_EQ((*uses_.All())["m"].last_start, std::nullopt);
  EXPECT_THAT(*uses_.UnfinishedFolders(), ElementsAre("/s/1", "/s/2", "/s/3"));
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/1", "/s/2"));
  Move(first, State::kRunning, 5);
  EXPECT_EQ((*uses_.All())["m"].unfinished, 2);
  Move(first, State::kSucceeded);
  Move(other, State::kCancelled);
  EXPECT_EQ((*uses_.All())["m"].unfinished, 1);
  EXPECT_THAT(*uses_.UnfinishedFolders(), ElementsAre("/s/2"));
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/1", "/s/2"))
      << "of jobs that have ended, too";
  ASSERT_TRUE(jobs_.Delete(first.id).ok());
  EXPECT_THAT(*uses_.FoldersOf("m"), ElementsAre("/s/2"));
}

TEST_F(ModelUsesTest, TheLastStartOutlivesItsJob) {
  jobs::Job first = Insert(1, "m", "/s/1");
  jobs::Job second = Insert(2, "m", "/s/1");
  Move(first, State::kRunning, 70);
  Move(second, State::kRunning, 60);
  EXPECT_EQ((*uses_.All())["m"].last_start, absl::FromUnixMicros(70));
  Move(second, State::kQueued);
  Move(second, State::kRunning, 80);
  for (jobs::Job* job : {&first, &second}) {
    Move(*job, State::kFailed);
    ASSERT_TRUE(jobs_.Delete(job->id).ok());
  }
  const auto uses = *uses_.All();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses.at("m").last_start, absl::FromUnixMicros(80));
  EXPECT_EQ(uses.at("m").unfinished, 0);
}

// Each would be a row for ever.
TEST_F(ModelUsesTest, FoldersAndResultsOfJobsAreNotKept) {
  int number = 0;
  for (const std::string& model :
       {std::string("/models/m"), std::string("job:ID"), std::string(),
        std::string(200, 'm')}) {
    jobs::Job job = Insert(++number, model, "/s");
    Move(job, State::kRunning, 5);
    Move(job, State::kFailed);
  }
  EXPECT_THAT(*uses_.All(), IsEmpty());
}

TEST_F(ModelUsesTest, ARowThatIsNoJsonNamesNoFolder) {
  jobs::Job job = QueuedJob(1);
  job.model = "m";
  job.spec_json = "{";
  ASSERT_TRUE(jobs_.Insert(job, StateEvent(job, 1)).ok());
  EXPECT_THAT(*uses_.FoldersOf("m"), IsEmpty());
  EXPECT_THAT(*uses_.UnfinishedFolders(), IsEmpty());
  EXPECT_EQ((*uses_.All())["m"].unfinished, 1);
}

}  // namespace
}  // namespace mpsd::store
