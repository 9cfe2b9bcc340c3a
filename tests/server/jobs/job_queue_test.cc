// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <gtest/gtest.h>

namespace mpsd::jobs {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

JobQueue::Entry Entry(const std::string& id, int32_t priority = 0,
                      absl::Time not_before = absl::InfinitePast()) {
  return {id, priority, kNow, not_before};
}

TEST(JobQueue, IsFifoWithinPriority) {
  JobQueue queue;
  for (const auto& entry :
       {Entry("3"), Entry("1"), Entry("4", 5), Entry("2"), Entry("5", -1)}) {
    queue.Push(entry);
  }
  for (const char* id : {"4", "1", "2", "3", "5"}) {
    ASSERT_TRUE(queue.Next(kNow).has_value());
    EXPECT_EQ(queue.Next(kNow)->id, id);
    EXPECT_TRUE(queue.Remove(id));
  }
  EXPECT_FALSE(queue.Next(kNow).has_value());
  EXPECT_FALSE(queue.Remove("1"));
}

TEST(JobQueue, OthersOvertakeAJobThatWaits) {
  JobQueue queue;
  queue.Push(Entry("1", 9, kNow + absl::Seconds(10)));
  EXPECT_FALSE(queue.Next(kNow).has_value());
  queue.Push(Entry("2"));
  EXPECT_EQ(queue.Next(kNow)->id, "2");
  EXPECT_EQ(queue.Next(kNow + absl::Seconds(10))->id, "1");
}

TEST(JobQueue, KnowsWhenToLookAgain) {
  JobQueue queue;
  EXPECT_EQ(queue.NextTime(), absl::InfiniteFuture());
  queue.Push(Entry("1", 9, kNow + absl::Seconds(10)));
  queue.Push(Entry("2", 0, kNow + absl::Seconds(5)));
  EXPECT_EQ(queue.NextTime(), kNow + absl::Seconds(5));
  queue.Push(Entry("3"));
  EXPECT_LE(queue.NextTime(), kNow);
}

TEST(JobQueue, CountsThoseAhead) {
  JobQueue queue;
  queue.Push(Entry("1"));
  queue.Push(Entry("2", 1));
  queue.Push(Entry("3"));
  EXPECT_EQ(queue.Position("2"), 0);
  EXPECT_EQ(queue.Position("1"), 1);
  EXPECT_EQ(queue.Position("3"), 2);
  EXPECT_EQ(queue.Position("4"), std::nullopt);
}

}  // namespace
}  // namespace mpsd::jobs
