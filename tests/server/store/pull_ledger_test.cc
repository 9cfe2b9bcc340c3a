// SPDX-License-Identifier: Apache-2.0
#include "server/store/pull_ledger.h"

#include <map>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/user_ledger.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(PullLedger, CountsWhatEachUserPulledUntilTheModelGoes) {
  Scratch scratch;
  auto database = Database::Open(scratch.path() / "mpsd.db");
  ASSERT_TRUE(database.ok()) << database.status();
  PullLedger pulls(**database);
  ASSERT_TRUE(pulls.Add("org/a", "ann", 5).ok());
  ASSERT_TRUE(pulls.Add("org/a", "ann", 2).ok());
  ASSERT_TRUE(pulls.Add("org/a", "bob", 1).ok());
  ASSERT_TRUE(pulls.Add("org/b", "ann", 4).ok());
  EXPECT_THAT(
      *pulls.All(),
      ElementsAre(Pair("org/a", ElementsAre(Pair("ann", 7), Pair("bob", 1))),
                  Pair("org/b", ElementsAre(Pair("ann", 4)))));
  UserLedger users(**database, std::make_shared<jobs::MeasuredFolders>());
  EXPECT_EQ(users.BytesOf("ann")->uploads, 11);
  EXPECT_EQ(users.BytesOf("eve")->uploads, 0);
  ASSERT_TRUE(pulls.Remove("org/a").ok());
  EXPECT_EQ(users.BytesOf("ann")->uploads, 4);
  EXPECT_EQ(users.BytesOf("bob")->uploads, 0);
  ASSERT_TRUE(pulls.Remove("org/b").ok());
  EXPECT_THAT(*pulls.All(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::store
