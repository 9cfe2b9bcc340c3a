// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/deleted_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

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

}  // namespace
}  // namespace mpsd::jobs
