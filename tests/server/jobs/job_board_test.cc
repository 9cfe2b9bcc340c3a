// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::jobs {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr char kId[] = "01KAH0AAAAAAAAAAAAAAAAAAAA";

class JobBoardTest : public testing::Test {
 protected:
  void Put(const std::string& id) {
    Job job;
    job.id = id;
    const Event first{id, 1, job.create_time, StateChanged{State::kQueued, ""}};
    ASSERT_TRUE(store_.Insert(job, first).ok());
  }

  fakes::FakeJobStore store_;
  fakes::FakeJobFiles files_;
  JobBoard board_{store_, files_};
};

TEST_F(JobBoardTest, ShowsWhatTheStoreHas) {
  Put(kId);
  ASSERT_TRUE(store_.AddCheckpoint(kId, {{1, "/c", 5, 0.5}, {}}).ok());
  EXPECT_EQ(board_.Get(kId)->id, kId);
  EXPECT_THAT(*board_.List({}), SizeIs(1));
  EXPECT_THAT(*board_.FindByIdPart("01KA", 5), SizeIs(1));
  EXPECT_THAT(*board_.Checkpoints(kId), SizeIs(1));
  EXPECT_THAT(*board_.Events(kId, 0), SizeIs(1));
  EXPECT_THAT(*board_.Events(kId, 1), IsEmpty());
  EXPECT_EQ(*board_.LastSequence(kId), 1);
}

TEST_F(JobBoardTest, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(board_.Get(kId).status()));
  EXPECT_TRUE(absl::IsNotFound(board_.Events(kId, 0).status()));
  EXPECT_TRUE(absl::IsNotFound(board_.Checkpoints(kId).status()));
}

TEST_F(JobBoardTest, ShowsWhatTheSchedulerPutUp) {
  board_.view().Push({"a", 0, absl::UnixEpoch()});
  board_.view().Push({"b", 0, absl::UnixEpoch()});
  board_.view().SetQueueHold(HoldReason::kDisk, "full");
  board_.view().SetRunning("r", {{PauseReason::kBattery}, true, {}});
  EXPECT_EQ(board_.QueuePosition("b"), 1);
  EXPECT_EQ(board_.HoldOf("b"), "full");
  EXPECT_TRUE(board_.PauseOf("r").held);
  EXPECT_EQ(board_.Info().running_job_id, "r");
  EXPECT_EQ(board_.Info().hold_reason, "disk");
}

TEST_F(JobBoardTest, ShowsTheQueueInOrder) {
  for (const char* id : {"b", "a"}) {
    JobQueue::Entry entry;
    entry.id = id;
    board_.view().Push(entry);
  }
  const QueueListing listing = board_.Queue(1);
  ASSERT_EQ(listing.places.size(), 1u);
  EXPECT_EQ(listing.places[0].id, "a");
  EXPECT_EQ(listing.more, 1);
}

TEST_F(JobBoardTest, WakesWhoWaitsUntilTheyLeave) {
  int woken = 0;
  const int64_t token = board_.Subscribe(kId, [&] { ++woken; });
  board_.hub().Wake(kId);
  board_.hub().Wake("another");
  board_.Unsubscribe(token);
  board_.hub().Wake(kId);
  EXPECT_EQ(woken, 1);
}

TEST_F(JobBoardTest, PathsAreThoseOfJobsAlone) {
  EXPECT_EQ(board_.LogPath(kId), std::string("/state/jobs/") + kId + "/log");
  EXPECT_EQ(board_.JobFolder(kId), std::string("/state/jobs/") + kId);
  EXPECT_EQ(board_.LogPath("../../etc"), "");
  EXPECT_EQ(board_.JobFolder("../../etc"), "");
  EXPECT_EQ(board_.RunFolder(kId), std::string("/state/jobs/") + kId + "/out");
  EXPECT_EQ(board_.RunFolder("../../etc"), "");
}

TEST_F(JobBoardTest, AJobsRequestIsNotThereForeverAgo) {
  EXPECT_TRUE(absl::IsNotFound(board_.RequestOf(kId).status()));
  Put(kId);
  EXPECT_TRUE(absl::IsFailedPrecondition(board_.RequestOf(kId).status()));
}

}  // namespace
}  // namespace mpsd::jobs
