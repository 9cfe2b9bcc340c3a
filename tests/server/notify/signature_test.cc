// SPDX-License-Identifier: Apache-2.0
#include "server/notify/signature.h"

#include <gtest/gtest.h>

#include <string>

namespace mpsd::notify {
namespace {

// printf '1767225600.{"a":1}' | openssl dgst -sha256 -hmac 0123456789abcdef
TEST(SignatureOf, IsWhatOpensslComputes) {
  EXPECT_EQ(SignatureOf("0123456789abcdef", absl::FromUnixSeconds(1767225600),
                        R"({"a":1})"),
            "t=1767225600,v1="
            "539b0e21b535c5201ef7d1453c0a0de4ad132293226de9018be0cfbf0092faa6");
}

TEST(SignatureOf, DependsOnEachOfItsParts) {
  const absl::Time time = absl::FromUnixSeconds(1767225600);
  const std::string signature = SignatureOf("key", time, "body");
  EXPECT_EQ(SignatureOf("key", time, "body"), signature);
  EXPECT_NE(SignatureOf("key2", time, "body"), signature);
  EXPECT_NE(SignatureOf("key", time + absl::Seconds(1), "body"), signature);
  EXPECT_NE(SignatureOf("key", time, "body2"), signature);
}

}  // namespace
}  // namespace mpsd::notify
