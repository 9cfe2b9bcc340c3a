// SPDX-License-Identifier: Apache-2.0
#include "server/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace mpsd {
namespace {

class DescriptorLimitTest : public testing::Test {
 protected:
  DescriptorLimitTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }
  static rlim_t Soft() {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit before_;
};

TEST_F(DescriptorLimitTest, TheSoftLimitIsRaised) {
  const rlimit few = {128, before_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const int limit = RaiseDescriptorLimit();
  EXPECT_GT(limit, 128);
  EXPECT_EQ(Soft(), static_cast<rlim_t>(limit));
}

TEST_F(DescriptorLimitTest, AHigherOneStays) {
  const int limit = RaiseDescriptorLimit();
  EXPECT_GE(static_cast<rlim_t>(limit),
            std::min<rlim_t>(before_.rlim_cur, 1 << 30));
  EXPECT_EQ(RaiseDescriptorLimit(), limit);
}

TEST_F(DescriptorLimitTest, SomeAreReserved) {
  EXPECT_EQ(FirstReservedDescriptor(256), 192);
  EXPECT_EQ(FirstReservedDescriptor(1024), 768);
  EXPECT_EQ(FirstReservedDescriptor(65'536), 4096);
}

}  // namespace
}  // namespace mpsd
