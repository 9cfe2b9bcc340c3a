// SPDX-License-Identifier: Apache-2.0
// What goes by a rule or by a person's wish, and what is kept from both.
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::Contains;
using testing::HasSubstr;

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
  const auto freed = scheduler_->RemoveJob(id, EndOf(id));
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 42);
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
  const std::string running = Submit();
  scheduler_->Tick();
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
  const auto freed = scheduler_->RemoveCheckpoints(id, EndOf(id));
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 17);
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
  EXPECT_TRUE(absl::IsAborted(submitted)) << submitted;
  EXPECT_THAT(std::string(submitted.message()),
              HasSubstr("files of job " + id + " were removed meanwhile"));
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
  EXPECT_THAT(log_, Contains(HasSubstr("job " + second +
                                       " goes without a record: the disk")));
}

TEST_F(SchedulerRemovalTest, APinnedJobIsKeptFromDelete) {
  const std::string id = Ended();
  EXPECT_TRUE(absl::IsNotFound(scheduler_->SetPinned("none", true).status()));
  ASSERT_TRUE(scheduler_->SetPinned(id, true).ok());
  EXPECT_THAT(kept_.pinned, Contains(id));
  ASSERT_TRUE(scheduler_->SetPinned(id, false).ok());
  EXPECT_THAT(kept_.pinned, testing::Not(Contains(id)));
}

}  // namespace
}  // namespace mpsd::jobs
