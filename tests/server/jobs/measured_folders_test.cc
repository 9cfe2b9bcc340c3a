// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "server/jobs/collector.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MeasuredFolders, NothingIsKnownBeforeTheFirstMeasurement) {
  MeasuredFolders folders;
  EXPECT_EQ(folders.TotalBytes(), std::nullopt);
  EXPECT_EQ(folders.BytesOf("a"), 0);
  folders.JobRemoved("a");
  folders.OthersRemoved(5);
  EXPECT_EQ(folders.TotalBytes(), std::nullopt);
  EXPECT_THAT(folders.TakeChanged(10), IsEmpty());
}

TEST(MeasuredFolders, WhatIsRemovedCountsNoMore) {
  MeasuredFolders folders;
  folders.Begin();
  folders.Set(1000, {{"a", 100, 60}, {"b", 50, 0}});
  EXPECT_EQ(folders.TotalBytes(), 1000);
  EXPECT_EQ(folders.BytesOf("a"), 100);
  folders.CheckpointsRemoved("a");
  EXPECT_EQ(folders.BytesOf("a"), 40);
  EXPECT_EQ(folders.TotalBytes(), 940);
  folders.CheckpointsRemoved("a");
  EXPECT_EQ(folders.TotalBytes(), 940);
  folders.JobRemoved("a");
  folders.OthersRemoved(300);
  EXPECT_EQ(folders.TotalBytes(), 600);
  EXPECT_EQ(folders.BytesOf("a"), 0);
  folders.OthersRemoved(10'000);
  EXPECT_EQ(folders.TotalBytes(), 0);
}

// Else retention would remove further jobs for bytes that are gone.
TEST(MeasuredFolders, WhatGoesDuringAMeasurementIsTakenFromItsResult) {
  MeasuredFolders folders;
  folders.Begin();
  folders.Set(1000, {{"a", 100, 60}, {"b", 50, 20}, {"c", 30, 30}});
  folders.Begin();
  folders.JobRemoved("a");
  folders.CheckpointsRemoved("b");
  folders.CheckpointsRemoved("c");
  folders.OthersRemoved(7);
  // The walk met a's folder under the name that it has while it is removed, b
  // before and c after its checkpoints went.
  folders.Set(1000, {{"b", 50, 20}, {"c", 0, 0}});
  EXPECT_EQ(folders.TotalBytes(), 1000 - 100 - 20 - 30 - 7);
  EXPECT_EQ(folders.BytesOf("a"), 0);
  EXPECT_EQ(folders.BytesOf("b"), 30);
  EXPECT_EQ(folders.BytesOf("c"), 0);
  // The next one is not told again.
  folders.Begin();
  folders.Set(500, {{"b", 30, 0}});
  EXPECT_EQ(folders.TotalBytes(), 500);
}

TEST(MeasuredFolders, ChangedFiguresAreTakenOnce) {
  MeasuredFolders folders;
  folders.Begin();
  folders.Set(1000, {{"a", 1, 0}, {"b", 2, 1}, {"c", 3, 0}});
  EXPECT_THAT(folders.TakeChanged(2),
              ElementsAre(FolderBytes{"a", 1, 0}, FolderBytes{"b", 2, 1}));
  folders.Return({{"b", 2, 1}});
  EXPECT_THAT(folders.TakeChanged(9),
              ElementsAre(FolderBytes{"b", 2, 1}, FolderBytes{"c", 3, 0}));
  EXPECT_THAT(folders.TakeChanged(9), IsEmpty());
  folders.Begin();
  folders.Set(1000, {{"a", 1, 0}, {"b", 2, 2}, {"c", 3, 0}});
  EXPECT_THAT(folders.TakeChanged(9), ElementsAre(FolderBytes{"b", 2, 2}));
  // One that goes before it is taken is not.
  folders.Begin();
  folders.Set(1000, {{"a", 5, 0}});
  folders.JobRemoved("a");
  EXPECT_THAT(folders.TakeChanged(9), IsEmpty());
}

}  // namespace
}  // namespace mpsd::jobs
