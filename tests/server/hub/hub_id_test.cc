// SPDX-License-Identifier: Apache-2.0
#include "server/hub/hub_id.h"

#include <gtest/gtest.h>

#include <string>

#include "core/spec/hub_cache.h"

namespace mpsd::hub {
namespace {

// The reason for the rule.
TEST(CheckHubId, TwoNamesThatPassNeverShareAFolder) {
  EXPECT_EQ(spec::RepositoryName("a--b/c"), spec::RepositoryName("a/b--c"));
  EXPECT_FALSE(CheckHubId("a--b/c").ok());
  EXPECT_FALSE(CheckHubId("a/b--c").ok());
}

TEST(CheckHubId, RefusesWhatNoHubHas) {
  for (const char* id : {"a/..", "a..b", "org/name.git"}) {
    EXPECT_FALSE(CheckHubId(id).ok()) << id;
  }
  for (const char* id : {"org/name", "name", "Org-1/n_a.m-e", "a.git/b"}) {
    EXPECT_TRUE(CheckHubId(id).ok()) << id;
  }
}

TEST(Hashes, AreLowerCaseDigitsOfOneLength) {
  EXPECT_TRUE(IsCommit(std::string(40, 'a')));
  EXPECT_TRUE(IsSha256(std::string(64, '0')));
  for (const char* text : {"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                           "gggggggggggggggggggggggggggggggggggggggg",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/.."}) {
    EXPECT_FALSE(IsCommit(text)) << text;
  }
  EXPECT_FALSE(IsSha256(std::string(40, 'a')));
  EXPECT_FALSE(IsSha256(std::string(63, 'a').append("/")));
}

}  // namespace
}  // namespace mpsd::hub
