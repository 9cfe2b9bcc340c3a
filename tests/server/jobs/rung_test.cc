// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/rung.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::jobs {
namespace {

TEST(RestsAtRung, OnceItHasTheCheckpointOfItsStep) {
  Job job;
  job.until_step = 8;
  job.durable_step = 7;
  EXPECT_FALSE(RestsAtRung(job));
  job.durable_step = 8;
  EXPECT_TRUE(RestsAtRung(job));
  job.durable_step = 9;
  EXPECT_TRUE(RestsAtRung(job));
  EXPECT_THAT(DescribeRung(job), testing::HasSubstr("step 8"));
  for (const State state : {State::kRunning, State::kSucceeded, State::kFailed,
                            State::kCancelled}) {
    job.state = state;
    EXPECT_FALSE(RestsAtRung(job)) << Name(state);
  }
}

TEST(RestsAtRung, NeverWithoutARungOrFromScratch) {
  Job job;
  job.durable_step = 8;
  EXPECT_FALSE(RestsAtRung(job));
  job.until_step = 8;
  job.fresh = true;
  EXPECT_FALSE(RestsAtRung(job)) << "its checkpoints go before it starts";
}

}  // namespace
}  // namespace mpsd::jobs
