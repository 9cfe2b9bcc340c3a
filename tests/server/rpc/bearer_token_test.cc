// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/bearer_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/limits.h"

namespace mpsd::rpc {
namespace {

TEST(BearerTokenTest, ReadsTheOneToken) {
  const auto token =
      BearerToken({{":path", "/x"}, {"authorization", "Bearer mpsd_abc"}});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(*token, "mpsd_abc");
  EXPECT_EQ(*BearerToken({{"authorization", "bearer a"}}), "a");
}

TEST(BearerTokenTest, ACallMayHaveNone) {
  EXPECT_EQ(*BearerToken({}), std::nullopt);
  EXPECT_EQ(*BearerToken({{"authorization-bin", "Bearer a"}}), std::nullopt);
}

TEST(BearerTokenTest, WhatIsNoTokenIsRefusedAndNotQuoted) {
  const std::string long_token =
      "Bearer " + std::string(limits::kTokenBytes + 1, 'a');
  for (const std::string& value :
       {std::string("Basic c2VjcmV0"), std::string("Bearer"),
        std::string("Bearer "), std::string("c2VjcmV0"), std::string(""),
        long_token}) {
    const absl::Status status =
        BearerToken({{"authorization", value}}).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << value;
    EXPECT_EQ(std::string(status.message()).find("c2Vj"), std::string::npos);
  }
  EXPECT_TRUE(
      BearerToken({{"authorization", grpc::string_ref(long_token.data(),
                                                      long_token.size() - 1)}})
          .ok());
}

// Which of the two would count is nobody's to guess.
TEST(BearerTokenTest, TwoTokensAreNone) {
  EXPECT_TRUE(
      absl::IsUnauthenticated(BearerToken({{"authorization", "Bearer a"},
                                           {"authorization", "Bearer b"}})
                                  .status()));
}

}  // namespace
}  // namespace mpsd::rpc
