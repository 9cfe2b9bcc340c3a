// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_deletion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kId[] = "01KAH0000000000000000000AA";

class JobDeletionTest : public testing::Test {
 protected:
  JobDeletionTest() { fs::create_directories(state_ / "jobs"); }
  ~JobDeletionTest() override { fs::remove_all(state_); }

  void Add(State state) {
    Job job;
    job.id = kId;
    job.state = state;
    ASSERT_TRUE(store_.Insert(job, {kId, 1, {}, StateChanged{}}).ok());
    fs::create_directories(Folder() / "out");
    std::ofstream(Folder() / "out/model") << std::string(1000, 'm');
  }
  fs::path Folder() const { return files_.Folder(kId); }
  absl::Status Delete() { return DeleteRow(store_, files_, kId); }

  static fs::path MakeFolder() {
    std::string name = testing::TempDir() + "deletionXXXXXX";
    return mkdtemp(name.data());
  }

  const fs::path state_ = MakeFolder();
  fakes::FakeJobStore store_;
  DiskJobFiles files_{state_};
};

TEST_F(JobDeletionTest, RowAndFolderGo) {
  for (State state : {State::kSucceeded, State::kFailed, State::kCancelled}) {
    Add(state);
    ASSERT_TRUE(Delete().ok());
    EXPECT_TRUE(absl::IsNotFound(store_.Get(kId).status()));
    EXPECT_TRUE(fs::exists(DeletionMark(Folder())));
    // Meanwhile: the mark stays with whom it belongs to.
    EXPECT_TRUE(absl::IsNotFound(Delete()));
    EXPECT_TRUE(fs::exists(DeletionMark(Folder())));
    EXPECT_EQ(files_.FinishDelete(kId), 1000);
    EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
  }
}

TEST_F(JobDeletionTest, OneThatHasNotEndedStays) {
  for (State state : {State::kQueued, State::kRunning}) {
    Add(state);
    const absl::Status refused = Delete();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("cancel it (`mpsctl cancel 01KAH"));
    EXPECT_TRUE(fs::exists(Folder() / "out/model"));
    EXPECT_FALSE(fs::exists(DeletionMark(Folder())));
  }
}

TEST_F(JobDeletionTest, WhereTheRowCannotGoNothingDoes) {
  Add(State::kFailed);
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(Delete()));
  EXPECT_TRUE(fs::exists(Folder() / "out/model"));
  EXPECT_FALSE(fs::exists(DeletionMark(Folder())));
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(Delete().ok());
}

TEST_F(JobDeletionTest, AFullDiskIsGivenRoomOnce) {
  fakes::FakeJobFiles files;
  Job job;
  job.id = kId;
  job.state = State::kFailed;
  ASSERT_TRUE(store_.Insert(job, {kId, 1, {}, StateChanged{}}).ok());
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  int made = 0;
  files.make_room = [&] { return ++made > 0; };
  EXPECT_TRUE(absl::IsResourceExhausted(DeleteRow(store_, files, kId)));
  EXPECT_EQ(made, 1);
  files.make_room = [&] {
    store_.FailWith(absl::OkStatus());
    return true;
  };
  EXPECT_TRUE(DeleteRow(store_, files, kId).ok());
  EXPECT_FALSE(store_.Get(kId).ok());
}

TEST_F(JobDeletionTest, RoomIsMadeByTheBallast) {
  EXPECT_FALSE(files_.MakeRoom());
  KeepBallast(BallastPath(state_ / "jobs"));
  EXPECT_TRUE(files_.MakeRoom());
  EXPECT_FALSE(files_.MakeRoom());
}

TEST_F(JobDeletionTest, WhereNothingCanBeMarkedTheRowStays) {
  Add(State::kFailed);
  fs::rename(state_ / "jobs", state_ / "away");
  EXPECT_FALSE(Delete().ok());
  EXPECT_TRUE(store_.Get(kId).ok());
}

TEST_F(JobDeletionTest, AFolderThatIsGoneAlreadyIsNoError) {
  Add(State::kFailed);
  fs::remove_all(Folder());
  ASSERT_TRUE(Delete().ok());
  EXPECT_EQ(files_.FinishDelete(kId), 0);
}

}  // namespace
}  // namespace mpsd::jobs
