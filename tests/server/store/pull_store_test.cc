// SPDX-License-Identifier: Apache-2.0
#include "server/store/pull_store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using models::KeptPull;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

KeptPull SomePull(const std::string& id, const std::string& revision) {
  return {id, revision, "ann", "", absl::FromUnixMicros(1'700'000'000'000'001)};
}

class PullStoreTest : public testing::Test {
 protected:
  PullStoreTest() { Open(); }
  void Open() {
    store_.reset();
    database_.reset();
    auto database = Database::Open(scratch_.path() / "mpsd.db");
    ASSERT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
    store_ = std::make_unique<PullStore>(*database_);
  }
  std::vector<KeptPull> All() {
    auto all = store_->List();
    EXPECT_TRUE(all.ok()) << all.status();
    return all.value_or(std::vector<KeptPull>());
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<PullStore> store_;
};

TEST_F(PullStoreTest, KeepsPullsAcrossARestart) {
  KeptPull first = SomePull("org/a", "main");
  const KeptPull second = SomePull("org/a", "v2");
  ASSERT_TRUE(store_->Add(first).ok());
  ASSERT_TRUE(store_->Add(second).ok());
  first.commit = std::string(40, 'c');
  ASSERT_TRUE(store_->SetCommit("org/a", "main", first.commit).ok());
  Open();
  EXPECT_THAT(All(), ElementsAre(first, second));
  ASSERT_TRUE(store_->Remove("org/a", "main").ok());
  Open();
  EXPECT_THAT(All(), ElementsAre(second));
}

TEST_F(PullStoreTest, OnePullOfARevision) {
  ASSERT_TRUE(store_->Add(SomePull("org/a", "main")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Add(SomePull("org/a", "main"))));
  EXPECT_EQ(All().size(), 1u);
}

TEST_F(PullStoreTest, WhatIsNotThereIsNoError) {
  EXPECT_TRUE(store_->Remove("org/a", "main").ok());
  EXPECT_TRUE(store_->SetCommit("org/a", "main", "c").ok());
  EXPECT_THAT(All(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::store
