// SPDX-License-Identifier: Apache-2.0
// The contract of ListMounts, whichever system implements it.
#include <gtest/gtest.h>

#include "core/host/mounts.h"

namespace mpsd::host {
namespace {

TEST(ListMounts, HasTheRootsVolume) {
  const std::vector<Mount> table = ListMounts();
  ASSERT_FALSE(table.empty());
  const auto root = MountOf("/", table);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->point, "/");
  EXPECT_NE(root->type, "");
}

}  // namespace
}  // namespace mpsd::host
