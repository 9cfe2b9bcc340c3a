// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_deletion.h"

#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/test_store.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

// A job is never both needed and removed, in any order of calls.
TEST(FolderClaims, NoJobNeedsWhatIsRemoved) {
  FolderClaims claims;
  std::atomic<int> uses = 0, removals = 0, both = 0;
  const auto use = [&] {
    const auto claim = claims.Take({"a"}, nullptr);
    if (!claim.ok()) return false;
    ++uses;
    if (removals > 0) ++both;
    --uses;
    return true;
  };
  const auto remove = [&] {
    const auto claim = claims.Remove("a");
    if (!claim.ok()) return false;
    if (++removals > 1 || uses > 0) ++both;
    --removals;
    return true;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // A refused thread lets the others continue, so that each gets its turn.
      for (int claimed = 0; claimed < 2000;) {
        if (t % 2 == 0 ? use() : remove()) {
          ++claimed;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(both, 0);
}

constexpr int64_t kPlenty = int64_t{1} << 40;

TEST(Ballast, TakesItsRoomUntilItIsThrownOff) {
  const fs::path state = FreshFolder("ballast");
  const fs::path path = BallastPath(state / "jobs");
  EXPECT_EQ(path, state / "ballast");
  EXPECT_FALSE(ThrowOffBallast(path));
  // An eighth of a disk with little room, and none of a full one.
  EXPECT_EQ(KeepBallast(path, 8 * kLeastBallastBytes - 1), 0);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(KeepBallast(path, 8 << 20), 1 << 20);
  EXPECT_EQ(fs::file_size(path), uintmax_t{1 << 20});
  EXPECT_EQ(KeepBallast(path, 0), 1 << 20);
  EXPECT_EQ(KeepBallast(path, kPlenty), kBallastBytes);
  struct stat first, second;
  ASSERT_EQ(stat(path.c_str(), &first), 0);
  EXPECT_EQ(first.st_size, kBallastBytes);
  EXPECT_EQ(KeepBallast(path, kPlenty), kBallastBytes);
  ASSERT_EQ(stat(path.c_str(), &second), 0);
  EXPECT_EQ(first.st_ino, second.st_ino);  // it is kept, not made anew
  EXPECT_TRUE(ThrowOffBallast(path));
  EXPECT_TRUE(fs::is_empty(state));
  EXPECT_FALSE(ThrowOffBallast(path));
  fs::remove_all(state);
  EXPECT_EQ(KeepBallast(path, kPlenty), 0);  // where it cannot be, it is not
  EXPECT_FALSE(fs::exists(path));
}

class DeletedFolderTest : public testing::Test {
 protected:
  DeletedFolderTest() {
    fs::create_directories(folder_ / "out");
    fs::create_directories(folder_ / "inputs");
    std::ofstream(folder_ / "out/model") << std::string(1000, 'm');
    std::ofstream(jobs_ / "blob") << std::string(500, 'b');
    fs::create_hard_link(jobs_ / "blob", folder_ / "inputs/train.jsonl");
    fs::create_symlink(jobs_ / "blob", folder_ / "inputs/link");
  }

  const fs::path jobs_ = FreshFolder("deleted");
  const fs::path folder_ = jobs_ / "01KAH0000000000000000000AA";
};

TEST_F(DeletedFolderTest, MarkedRemovedAndCounted) {
  ASSERT_TRUE(MarkForDeletion(folder_).ok());
  EXPECT_TRUE(fs::exists(DeletionMark(folder_)));
  EXPECT_TRUE(fs::exists(folder_ / "out/model"));
  EXPECT_EQ(RemoveMarkedFolder(folder_), 1000);  // the blob stays
  EXPECT_EQ(fs::file_size(jobs_ / "blob"), 500u);
  fs::remove(jobs_ / "blob");
  EXPECT_TRUE(fs::is_empty(jobs_));
}

TEST_F(DeletedFolderTest, CheckpointsGoAloneAndAllAtOnce) {
  EXPECT_EQ(*RemoveCheckpointsOf(folder_), 0) << "there are no checkpoints";
  const fs::path checkpoints = folder_ / "out/checkpoints";
  fs::create_directories(checkpoints / "step-5");
  std::ofstream(checkpoints / "step-5/state") << std::string(300, 's');
  EXPECT_EQ(*RemoveCheckpointsOf(folder_), 300);
  EXPECT_FALSE(fs::exists(checkpoints));
  EXPECT_EQ(fs::file_size(folder_ / "out/model"), 1000u);
  EXPECT_TRUE(fs::exists(folder_ / "inputs/train.jsonl"));
  EXPECT_EQ(*RemoveCheckpointsOf(folder_), 0);
  EXPECT_EQ(*RemoveCheckpointsOf(jobs_ / "none"), 0);
}

// A job's files are not to be trusted: what a link names stays.
TEST_F(DeletedFolderTest, CheckpointsThatAreALinkTakeNothingWithThem) {
  const fs::path outside = jobs_ / "outside";
  fs::create_directories(outside / "checkpoints/step-1");
  std::ofstream(outside / "checkpoints/step-1/state") << "precious";
  fs::create_directory_symlink(outside / "checkpoints",
                               folder_ / "out/checkpoints");
  EXPECT_EQ(*RemoveCheckpointsOf(folder_), 0);
  EXPECT_FALSE(fs::is_symlink(folder_ / "out/checkpoints"));
  EXPECT_TRUE(fs::exists(outside / "checkpoints/step-1/state"));
  fs::remove_all(folder_ / "out");
  fs::create_directory_symlink(outside, folder_ / "out");
  EXPECT_FALSE(RemoveCheckpointsOf(folder_).ok());
  EXPECT_TRUE(fs::exists(outside / "checkpoints/step-1/state"));
}

constexpr char kKept[] = "01KAH0000000000000000000AA";
constexpr char kGone[] = "01KAH0000000000000000000BB";

class JobSweepTest : public testing::Test {
 protected:
  JobSweepTest() {
    Job job;
    job.id = kKept;
    EXPECT_TRUE(store_.Insert(job, {kKept, 1, {}, StateChanged{}}).ok());
    Make(kKept, "out/model");
    Make(kKept, "job.json");
  }

  void Make(const std::string& folder, const std::string& file) {
    const fs::path path = jobs_ / folder / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  Leftovers Sweep(absl::Duration grace = absl::ZeroDuration()) {
    absl::StatusOr<Leftovers> found = FindLeftovers(jobs_, store_, grace);
    EXPECT_TRUE(found.ok()) << found.status();
    RemoveLeftovers(found->garbage);
    EXPECT_TRUE(fs::exists(jobs_ / kKept / "out/model"));
    return *found;
  }
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(jobs_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  const fs::path jobs_ = FreshFolder("sweep");
  fakes::TestStore db_;
  JobStore& store_ = db_.rows;
};

TEST_F(JobSweepTest, StagedFoldersGo) {
  const fs::path staged = base::TemporaryBeside(jobs_ / kGone);
  Make(staged.filename().string(), "inputs/train.jsonl");
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage, ElementsAre(staged));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ASubmissionThatWasCutOffGoesAfterItsGrace) {
  for (const char* file : {"job.json", RequestFile::kFile, InputNames::kFile,
                           "inputs/train.jsonl"}) {
    Make(kGone, file);
  }
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage, IsEmpty());
  EXPECT_THAT(Sweep().garbage, ElementsAre(jobs_ / kGone));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

// As after a database that was restored from an older copy.
TEST_F(JobSweepTest, ResultsWithoutARowAreNamedAndStay) {
  Make(kGone, "job.json");
  Make(kGone, "out/model");
  const Leftovers found = Sweep();
  EXPECT_THAT(found.garbage, IsEmpty());
  EXPECT_THAT(found.unknown, ElementsAre(kGone));
  EXPECT_TRUE(fs::exists(jobs_ / kGone / "out/model"));
}

TEST_F(JobSweepTest, WhatIsNoJobIsLeftAlone) {
  EXPECT_THAT(Sweep().garbage, IsEmpty()) << "the job has a row";
  Make("lost+found", "x");
  Make(".DS_Store", "x");
  EXPECT_THAT(Sweep().garbage, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre(".DS_Store", kKept, "lost+found"));
}

// A kill after each step of job_deletion.h.
TEST_F(JobSweepTest, ADeletionWhoseRowStayedIsForgotten) {
  ASSERT_TRUE(MarkForDeletion(jobs_ / kKept).ok());
  EXPECT_THAT(Sweep().garbage, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ADeletionWhoseRowIsGoneIsFinished) {
  Make(kGone, "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage,
              ElementsAre(jobs_ / kGone, DeletionMark(jobs_ / kGone)));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ADeletionWhoseFolderWasMovedAsideIsFinished) {
  const fs::path aside = base::TemporaryBeside(jobs_ / kGone);
  Make(aside.filename().string(), "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  Sweep(absl::Hours(1));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, AMarkOutlivesAFolderThatCannotBeRemoved) {
  Make(kGone, "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  RemoveLeftovers({DeletionMark(jobs_ / kGone)});
  EXPECT_THAT(Names(), ElementsAre(DeletionMark(jobs_ / kGone).filename(),
                                   kKept, kGone));
  RemoveLeftovers({jobs_ / kGone, DeletionMark(jobs_ / kGone)});
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

class JobDeletionTest : public testing::Test {
 protected:
  JobDeletionTest() { fs::create_directories(state_ / "jobs"); }

  void Add(State state) {
    Insert(state);
    fs::create_directories(Folder() / "out");
    std::ofstream(Folder() / "out/model") << std::string(1000, 'm');
  }
  void Insert(State state) {
    db_.Execute("DELETE FROM jobs");
    Job job;
    job.id = kKept;
    job.state = state;
    ASSERT_TRUE(store_.Insert(job, {kKept, 1, {}, StateChanged{}}).ok());
  }
  fs::path Folder() const { return files_.Folder(kKept); }
  absl::Status Delete() { return DeleteRow(store_, files_, kKept); }

  const fs::path state_ = FreshFolder("deletion");
  fakes::TestStore db_;
  JobStore& store_ = db_.rows;
  JobFiles files_{state_};
};

TEST_F(JobDeletionTest, RowAndFolderGo) {
  for (State state : {State::kSucceeded, State::kFailed, State::kCancelled}) {
    Add(state);
    ASSERT_TRUE(Delete().ok());
    EXPECT_TRUE(absl::IsNotFound(store_.Get(kKept).status()));
    EXPECT_TRUE(fs::exists(DeletionMark(Folder())));
    // Meanwhile: the mark stays with its owner.
    EXPECT_TRUE(absl::IsNotFound(Delete()));
    EXPECT_TRUE(fs::exists(DeletionMark(Folder())));
    EXPECT_EQ(files_.FinishDelete(kKept), 1000);
    EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
  }
}

TEST_F(JobDeletionTest, OneThatHasNotEndedStays) {
  for (State state : {State::kQueued, State::kRunning}) {
    Add(state);
    EXPECT_THAT(Delete(),
                Fails(kFailedPrecondition, "cancel it (`mpsctl cancel 01KAH"));
    EXPECT_TRUE(fs::exists(Folder() / "out/model"));
    EXPECT_FALSE(fs::exists(DeletionMark(Folder())));
  }
}

TEST_F(JobDeletionTest, WhereTheRowCannotGoNothingDoes) {
  Add(State::kFailed);
  db_.FillDisk();
  EXPECT_TRUE(absl::IsResourceExhausted(Delete()));
  EXPECT_TRUE(fs::exists(Folder() / "out/model"));
  EXPECT_FALSE(fs::exists(DeletionMark(Folder())));
  db_.FreeDisk();
  EXPECT_TRUE(Delete().ok());
}

TEST_F(JobDeletionTest, AFullDiskIsGivenRoomOnce) {
  fakes::FakeJobFiles files;
  Insert(State::kFailed);
  db_.FillDisk();
  int made = 0;
  files.make_room = [&] { return ++made > 0; };
  EXPECT_TRUE(absl::IsResourceExhausted(DeleteRow(store_, files, kKept)));
  EXPECT_EQ(made, 1);
  files.make_room = [&] {
    db_.FreeDisk();
    return true;
  };
  EXPECT_TRUE(DeleteRow(store_, files, kKept).ok());
  EXPECT_FALSE(store_.Get(kKept).ok());
}

TEST_F(JobDeletionTest, RoomIsMadeByTheBallast) {
  EXPECT_FALSE(files_.MakeRoom());
  KeepBallast(BallastPath(state_ / "jobs"), kPlenty);
  EXPECT_TRUE(files_.MakeRoom());
  EXPECT_FALSE(files_.MakeRoom());
}

TEST_F(JobDeletionTest, WhereNothingCanBeMarkedTheRowStays) {
  Add(State::kFailed);
  fs::rename(state_ / "jobs", state_ / "away");
  EXPECT_FALSE(Delete().ok());
  EXPECT_TRUE(store_.Get(kKept).ok());
}

TEST_F(JobDeletionTest, AFolderThatIsGoneAlreadyIsNoError) {
  Add(State::kFailed);
  fs::remove_all(Folder());
  ASSERT_TRUE(Delete().ok());
  EXPECT_EQ(files_.FinishDelete(kKept), 0);
}

}  // namespace
}  // namespace mpsd::jobs
