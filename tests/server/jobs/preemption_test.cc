// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/job_queue.h"

namespace mpsd::jobs {
namespace {

PreemptionPolicy On() {
  PreemptionPolicy policy;
  policy.enabled = true;
  return policy;
}

JobQueue::Entry Challenger(int32_t priority) {
  JobQueue::Entry entry;
  entry.priority = priority;
  return entry;
}

Holder LongAtWork() { return {0, true, absl::Hours(1), absl::Hours(1)}; }

TEST(MayTake, AStrictlyHigherPriorityWhereItIsEnabled) {
  EXPECT_TRUE(MayTake(On(), Challenger(1), LongAtWork()));
  EXPECT_FALSE(MayTake(On(), Challenger(0), LongAtWork()));
  EXPECT_FALSE(MayTake(On(), Challenger(-1), LongAtWork()));
  EXPECT_FALSE(MayTake(PreemptionPolicy(), Challenger(1), LongAtWork()));
}

TEST(MayTake, NotWhatWaitsBehindAllOthers) {
  JobQueue::Entry behind = Challenger(100);
  behind.behind = true;
  EXPECT_FALSE(MayTake(On(), behind, LongAtWork()));
}

TEST(MayTake, NotBeforeTheFirstStep) {
  Holder holder = LongAtWork();
  holder.has_stepped = false;
  holder.left.reset();
  EXPECT_FALSE(MayTake(On(), Challenger(1), holder));
}

TEST(MayTake, NotWithinTheLeastRun) {
  Holder holder = LongAtWork();
  holder.run = On().least_run - absl::Seconds(1);
  EXPECT_FALSE(MayTake(On(), Challenger(1), holder));
  holder.run = On().least_run;
  EXPECT_TRUE(MayTake(On(), Challenger(1), holder));
}

TEST(MayTake, NotFromOneThatIsAboutToEnd) {
  Holder holder = LongAtWork();
  holder.left = On().margin - absl::Seconds(1);
  EXPECT_FALSE(MayTake(On(), Challenger(1), holder));
  holder.left = On().margin;
  EXPECT_TRUE(MayTake(On(), Challenger(1), holder));
}

}  // namespace
}  // namespace mpsd::jobs
