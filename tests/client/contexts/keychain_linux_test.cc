// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "client/contexts/keychain.h"

namespace mpsd::client {
namespace {

TEST(Keychain, KeepsTheSecretOrSaysThatThereIsNone) {
  const absl::Status kept = KeepInKeychain("mpsd-test", "secret");
  if (absl::IsUnimplemented(kept)) {
    EXPECT_TRUE(absl::IsUnimplemented(ReadFromKeychain("mpsd-test").status()));
    EXPECT_TRUE(absl::IsUnimplemented(RemoveFromKeychain("mpsd-test")));
    return;
  }
  if (absl::IsUnavailable(kept)) GTEST_SKIP() << kept.message();
  EXPECT_EQ(ReadFromKeychain("mpsd-test").value(), "secret");
  ASSERT_TRUE(KeepInKeychain("mpsd-test", "another").ok());
  EXPECT_EQ(ReadFromKeychain("mpsd-test").value(), "another");
  EXPECT_TRUE(RemoveFromKeychain("mpsd-test").ok());
  EXPECT_TRUE(absl::IsNotFound(ReadFromKeychain("mpsd-test").status()));
  EXPECT_TRUE(RemoveFromKeychain("mpsd-test").ok());
}

}  // namespace
}  // namespace mpsd::client
