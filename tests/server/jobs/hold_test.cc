// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <iterator>
#include <set>

#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {
namespace {

TEST(HoldReason, NamesDiffer) {
  std::set<std::string_view> names;
  for (HoldReason reason : kAllHoldReasons) names.insert(Name(reason));
  EXPECT_EQ(names.size(), std::size(kAllHoldReasons));
}

}  // namespace
}  // namespace mpsd::jobs
