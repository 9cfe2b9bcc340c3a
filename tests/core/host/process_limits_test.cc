// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/host/processes.h"

namespace mpsd::host {
namespace {

TEST(ProcessLimits, AreTheSoftOnesOfThisProcess) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(ReadProcessLimits().descriptors, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(ReadProcessLimits().descriptors, 200);
}

}  // namespace
}  // namespace mpsd::host
