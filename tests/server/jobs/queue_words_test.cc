// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/job_queue.h"

namespace mpsd::jobs {
namespace {

JobQueue::Entry Entry(const std::string& owner, int32_t priority = 0) {
  JobQueue::Entry entry;
  entry.owner = owner;
  entry.priority = priority;
  return entry;
}

TEST(WhyThere, NamesPriorityAndUse) {
  EXPECT_EQ(WhyThere(Entry("ann", 5), absl::Minutes(130), absl::Hours(24)),
            "priority 5, ann has used the device 2h10m lately");
  EXPECT_EQ(WhyThere(Entry("bob"), absl::ZeroDuration(), absl::Hours(24)),
            "priority 0, bob has not used the device lately");
  EXPECT_EQ(WhyThere(Entry(""), absl::ZeroDuration(), absl::Hours(24)),
            "priority 0, its owner, who has no name, has not used the device "
            "lately");
}

TEST(WhyThere, IsFirstComeWhereUseDoesNotCount) {
  EXPECT_EQ(
      WhyThere(Entry("ann", -1), absl::ZeroDuration(), absl::ZeroDuration()),
      "priority -1, first come, first served");
}

TEST(WhyThere, SaysWhatWaitsBehindAll) {
  JobQueue::Entry entry = Entry("ann", 9);
  entry.behind = true;
  EXPECT_EQ(WhyThere(entry, absl::Hours(1), absl::Hours(24)),
            "behind all others once: its last attempt ended early without a "
            "new checkpoint");
}

TEST(WhyThere, SaysWhoWasMoved) {
  JobQueue::Entry entry = Entry("ann");
  entry.place = -1;
  EXPECT_EQ(WhyThere(entry, absl::ZeroDuration(), absl::ZeroDuration()),
            "priority 0, moved up, first come, first served");
  entry.place = 2;
  EXPECT_EQ(WhyThere(entry, absl::Minutes(130), absl::Hours(24)),
            "priority 0, moved down, ann has used the device 2h10m lately");
  entry.among_all = true;
  EXPECT_EQ(WhyThere(entry, absl::Minutes(130), absl::Hours(24)),
            "priority 0, moved behind all others of it by an admin");
  entry.place = -2;
  EXPECT_EQ(WhyThere(entry, absl::Minutes(130), absl::Hours(24)),
            "priority 0, moved before all others of it by an admin");
}

TEST(RoundTime, KeepsWhatAPersonWants) {
  EXPECT_EQ(RoundTime(absl::Milliseconds(65'900)), "1m5s");
  EXPECT_EQ(RoundTime(absl::Seconds(7384)), "2h3m");
  EXPECT_EQ(RoundTime(absl::Hours(100)), "100h");
}

}  // namespace
}  // namespace mpsd::jobs
