// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_id.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/fakes/fake_clock.h"

namespace mpsd::jobs {
namespace {

class JobIdTest : public testing::Test {
 protected:
  fakes::FakeClock clock_;
  uint64_t random_ = 0;
  JobIdGenerator ids_{clock_, [this] { return random_; }};
};

TEST_F(JobIdTest, EncodesTimeAndRandomness) {
  // 1767225600000 ms in base 32; all random bits 0, then all 1.
  EXPECT_EQ(ids_.Next(),
            "01KDVDNA00"
            "0000000000000000");
  clock_.Advance(absl::Milliseconds(1));
  random_ = ~uint64_t{0};
  EXPECT_EQ(ids_.Next(),
            "01KDVDNA01"
            "ZZZZZZZZZZZZZZZZ");
}

TEST_F(JobIdTest, GrowsWithinAMillisecond) {
  random_ = (uint64_t{1} << 40) - 2;
  std::string last = ids_.Next();
  for (int i = 0; i < 100; ++i) {
    const std::string next = ids_.Next();
    EXPECT_LT(last, next);
    last = next;
  }
}

TEST_F(JobIdTest, CarriesIntoTheMillisecondsWhenTheBitsAreUsedUp) {
  random_ = ~uint64_t{0};
  const std::string first = ids_.Next();
  const std::string second = ids_.Next();
  EXPECT_EQ(second,
            "01KDVDNA01"
            "0000000000000000");
  EXPECT_LT(first, second);
}

TEST_F(JobIdTest, GrowsWhenTheClockStepsBack) {
  const std::string first = ids_.Next();
  clock_.Advance(-absl::Hours(1));
  EXPECT_LT(first, ids_.Next());
}

TEST_F(JobIdTest, RealOnesDiffer) {
  JobIdGenerator a(clock_, JobIdGenerator::SystemRandom());
  JobIdGenerator b(clock_, JobIdGenerator::SystemRandom());
  EXPECT_NE(a.Next(), b.Next());
}

TEST_F(JobIdTest, KnowsItsOwn) {
  EXPECT_TRUE(IsJobId(ids_.Next()));
  EXPECT_FALSE(IsJobId(""));
  EXPECT_FALSE(IsJobId("../../etc/passwd/../../../"));
  EXPECT_FALSE(IsJobId("01kdvdna000000000000000000"));
  EXPECT_FALSE(IsJobId("01KDVDNA0000000000000000000"));
  EXPECT_FALSE(IsJobId("01KDVDNA00000000000000000U"));
}

}  // namespace
}  // namespace mpsd::jobs
