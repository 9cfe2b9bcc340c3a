// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/origin.h"

#include <gtest/gtest.h>

namespace mpsd::rpc {
namespace {

TEST(OriginTest, SaysWhereACallCameFrom) {
  EXPECT_EQ(Origin("ipv4:10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(Origin("ipv6:%5B::1%5D:4711"), "::1");
  EXPECT_EQ(Origin("ipv6:[fe80::1%25en0]:4711"), "fe80::1%en0");
  EXPECT_EQ(Origin("ipv6:%5B::ffff:10.0.0.1%5D:1"), "10.0.0.1");
  EXPECT_EQ(Origin("unix:"), "this machine");
  EXPECT_EQ(Origin("unix:/run/mpsd.sock"), "this machine");
}

}  // namespace
}  // namespace mpsd::rpc
