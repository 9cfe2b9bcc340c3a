// SPDX-License-Identifier: Apache-2.0
#include "server/store/owner_use.h"

// What owners used of the device, as the job store keeps it.
#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

TEST(OwnerUse, ComesWithTheRowOrNotAtAll) {
  Scratch scratch;
  const std::unique_ptr<Database> database = OpenOrDie(scratch.file());
  SqliteJobStore store(*database);
  jobs::Job job = QueuedJob(1);
  ASSERT_TRUE(store.Insert(job, StateEvent(job, 1)).ok());
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'000'001);
  jobs::OwnerUse use{"ann", 12.5, time};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  use = {std::string("'\0;--", 6), 1e9, time};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  use = {"ann", 3, time + absl::Hours(1)};
  ASSERT_TRUE(store.Update(job, {}, &use).ok());
  // A row that is refused takes the use with it.
  use = {"ann", 99, time};
  EXPECT_FALSE(store.Update(QueuedJob(2), {}, &use).ok());
  job.state = jobs::State::kSucceeded;
  EXPECT_FALSE(store.Update(job, {}, &use).ok());

  auto uses = store.OwnerUses();
  ASSERT_TRUE(uses.ok()) << uses.status();
  ASSERT_EQ(uses->size(), 2u);
  std::sort(uses->begin(), uses->end(),
            [](const auto& a, const auto& b) { return a.owner < b.owner; });
  EXPECT_EQ((*uses)[0].owner, std::string("'\0;--", 6));
  EXPECT_EQ((*uses)[1].owner, "ann");
  EXPECT_EQ((*uses)[1].seconds, 3);
  EXPECT_EQ((*uses)[1].time, time + absl::Hours(1));
  ASSERT_TRUE(store.ForgetUses({"ann", "nobody"}).ok());
  EXPECT_EQ(store.OwnerUses()->size(), 1u);
}

}  // namespace
}  // namespace mpsd::store
