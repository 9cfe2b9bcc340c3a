// SPDX-License-Identifier: Apache-2.0
#include "core/base/atomic_file.h"

#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;
using testing_support::FreshFolder;

size_t EntriesIn(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder),
                       fs::directory_iterator());
}

TEST(AtomicFileTest, AppearsWholeWithCommit) {
  const fs::path folder = FreshFolder("atomic");
  auto file = AtomicFile::Create(folder / "f");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("one, ").ok());
  ASSERT_TRUE((*file)->Append("").ok());
  ASSERT_TRUE((*file)->Append("two").ok());
  EXPECT_FALSE(fs::exists(folder / "f"));
  ASSERT_TRUE((*file)->Commit().ok());
  EXPECT_EQ(*ReadFile(folder / "f"), "one, two");
  file->reset();
  EXPECT_EQ(EntriesIn(folder), 1u);
}

TEST(AtomicFileTest, AppearsUnsyncedToo) {
  const fs::path folder = FreshFolder("unsynced");
  auto file = AtomicFile::Create(folder / "f");
  ASSERT_TRUE((*file)->Append("text").ok());
  ASSERT_TRUE((*file)->CommitUnsynced().ok());
  EXPECT_EQ(*ReadFile(folder / "f"), "text");
}

TEST(AtomicFileTest, UncommittedLeavesWhatWasThereAndNothingElse) {
  const fs::path folder = FreshFolder("uncommitted");
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "old").ok());
  {
    auto file = AtomicFile::Create(folder / "f");
    ASSERT_TRUE((*file)->Append("new").ok());
    EXPECT_EQ(EntriesIn(folder), 2u);
  }
  EXPECT_EQ(*ReadFile(folder / "f"), "old");
  EXPECT_EQ(EntriesIn(folder), 1u);
}

TEST(AtomicFileTest, WhatAKilledProcessLeavesIsTold) {
  const fs::path folder = FreshFolder("told");
  auto file = AtomicFile::Create(folder / "f.tokens");
  const fs::path left = fs::directory_iterator(folder)->path();
  EXPECT_TRUE(IsUnfinished(left)) << left;
  EXPECT_FALSE(IsUnfinished(folder / "f.tokens"));
  EXPECT_FALSE(IsUnfinished(folder / ".hidden"));
  EXPECT_FALSE(IsUnfinished(folder / "f.tmp"));
  EXPECT_NE(TemporaryBeside(folder / "f"), TemporaryBeside(folder / "f"));
}

TEST(AtomicFileTest, AMissingFolderIsNotFound) {
  const auto file = AtomicFile::Create(FreshFolder("none") / "no" / "f");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::base
