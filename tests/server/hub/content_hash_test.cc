// SPDX-License-Identifier: Apache-2.0
#include "server/hub/content_hash.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/sha256.h"

namespace mpsd::hub {
namespace {

TEST(ContentHash, IsSha256WhereTheHubNamesOne) {
  ContentHash hash({"w", 5, base::Sha256Hex("hello")});
  hash.Update("hel");
  hash.Update("lo");
  EXPECT_EQ(hash.FinishHex(), base::Sha256Hex("hello"));
}

// printf hello | git hash-object --stdin
TEST(ContentHash, ElseGitsObjectId) {
  ContentHash hash({"f", 5, std::string(40, '0')});
  hash.Update("hello");
  EXPECT_EQ(hash.FinishHex(), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
  ContentHash empty({"f", 0, std::string(40, '0')});
  EXPECT_EQ(empty.FinishHex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

}  // namespace
}  // namespace mpsd::hub
