// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "server/jobs/job_deletion.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;

class DeletedFolderTest : public testing::Test {
 protected:
  DeletedFolderTest() {
    std::string name = testing::TempDir() + "deletedXXXXXX";
    jobs_ = mkdtemp(name.data());
    folder_ = jobs_ / "01KAH0000000000000000000AA";
    fs::create_directories(folder_ / "out");
    fs::create_directories(folder_ / "inputs");
    std::ofstream(folder_ / "out/model") << std::string(1000, 'm');
    std::ofstream(jobs_ / "blob") << std::string(500, 'b');
    fs::create_hard_link(jobs_ / "blob", folder_ / "inputs/train.jsonl");
    fs::create_symlink(jobs_ / "blob", folder_ / "inputs/link");
  }
  ~DeletedFolderTest() override { fs::remove_all(jobs_); }

  fs::path jobs_, folder_;
};

TEST_F(DeletedFolderTest, AMarkIsThatOfItsFolder) {
  EXPECT_EQ(DeletionMark(folder_),
            jobs_ / ".01KAH0000000000000000000AA.delete");
  EXPECT_EQ(MarkedFolder(DeletionMark(folder_)), folder_);
  for (const char* other :
       {".delete", "x.delete", ".x.tmp", "x", ".x.deleted"}) {
    EXPECT_EQ(MarkedFolder(jobs_ / other), "") << other;
  }
}

TEST_F(DeletedFolderTest, MarkedRemovedAndCounted) {
  ASSERT_TRUE(MarkForDeletion(folder_).ok());
  EXPECT_TRUE(fs::exists(DeletionMark(folder_)));
  EXPECT_TRUE(fs::exists(folder_ / "out/model"));
  EXPECT_EQ(RemoveMarkedFolder(folder_), 1000);  // the blob stays
  EXPECT_EQ(fs::file_size(jobs_ / "blob"), 500u);
  fs::remove(jobs_ / "blob");
  EXPECT_TRUE(fs::is_empty(jobs_));
}

TEST_F(DeletedFolderTest, UnmarkedItStays) {
  ASSERT_TRUE(MarkForDeletion(folder_).ok());
  UnmarkForDeletion(folder_);
  EXPECT_FALSE(fs::exists(DeletionMark(folder_)));
  EXPECT_TRUE(fs::exists(folder_ / "out/model"));
}

TEST_F(DeletedFolderTest, AFolderThatIsGoneLosesItsMark) {
  fs::remove_all(folder_);
  ASSERT_TRUE(MarkForDeletion(folder_).ok());
  EXPECT_EQ(RemoveMarkedFolder(folder_), 0);
  EXPECT_FALSE(fs::exists(DeletionMark(folder_)));
}

TEST_F(DeletedFolderTest, CheckpointsGoAloneAndAllAtOnce) {
  EXPECT_EQ(*RemoveCheckpointsOf(folder_), 0) << "there are none";
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

}  // namespace
}  // namespace mpsd::jobs
