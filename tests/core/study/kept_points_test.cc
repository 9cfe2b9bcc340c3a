// SPDX-License-Identifier: Apache-2.0
#include "core/study/kept_points.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/core/scratch_folder.h"

namespace mpsd::study {
namespace {

using nlohmann::json;

class KeptPointsTest : public testing::Test {
 protected:
  KeptPoints Read(const std::string& key = "key") const {
    return KeptPoints::Read(file_, key);
  }

  const std::filesystem::path file_ =
      testing_support::FreshFolder("kept_points") / "points.jsonl";
};

TEST_F(KeptPointsTest, PointsOutliveTheProcess) {
  KeptPoints kept = Read();
  EXPECT_TRUE(kept.points().empty());
  ASSERT_TRUE(kept.Begin(1).ok());
  ASSERT_TRUE(kept.Add({{"batch", 1}}).ok());
  ASSERT_TRUE(kept.Begin(2).ok());
  ASSERT_TRUE(kept.Add({{"batch", 2}, {"why", "line\nbreak"}}).ok());
  const KeptPoints again = Read();
  ASSERT_EQ(again.points().size(), 2u);
  EXPECT_EQ(again.points()[1]["why"], "line\nbreak");
  EXPECT_EQ(again.Ends(1), 0);
  EXPECT_EQ(again.Ends(3), 0);
}

TEST_F(KeptPointsTest, EndsWithoutAWordAreCounted) {
  {
    KeptPoints killed = Read();
    ASSERT_TRUE(killed.Begin(4).ok());
  }
  {
    KeptPoints killed_again = Read();
    EXPECT_EQ(killed_again.Ends(4), 1);
    EXPECT_EQ(killed_again.Ends(8), 0);
    ASSERT_TRUE(killed_again.Begin(4).ok());
  }
  KeptPoints third = Read();
  EXPECT_EQ(third.Ends(4), 2);
  ASSERT_TRUE(third.Add({{"batch", 4}}).ok());
  EXPECT_EQ(Read().Ends(4), 0);
}

// A preemption is no fault of the point.
TEST_F(KeptPointsTest, AnAbandonedPointIsNotHeldAgainstIt) {
  {
    KeptPoints killed = Read();
    ASSERT_TRUE(killed.Begin(4).ok());
  }
  for (int i = 0; i < 3; ++i) {
    KeptPoints preempted = Read();
    EXPECT_EQ(preempted.Ends(4), 1);
    ASSERT_TRUE(preempted.Begin(4).ok());
    ASSERT_TRUE(preempted.Abandon().ok());
  }
  KeptPoints fresh = Read("other");
  ASSERT_TRUE(fresh.Begin(4).ok());
  ASSERT_TRUE(fresh.Abandon().ok());
  EXPECT_EQ(Read("other").Ends(4), 0);
}

TEST_F(KeptPointsTest, WhatIsNotOursIsDropped) {
  KeptPoints kept = Read();
  ASSERT_TRUE(kept.Add({{"batch", 1}}).ok());
  EXPECT_TRUE(Read("another version").points().empty());
  for (const char* spoilt : {"", "[]\n", "{\"key\": \"key\"}\n{\"batch\"",
                             "{\"key\": 7}\n", "\n\n", "{}\n"}) {
    std::ofstream(file_) << spoilt;
    EXPECT_TRUE(Read().points().empty()) << spoilt;
  }
}

}  // namespace
}  // namespace mpsd::study
