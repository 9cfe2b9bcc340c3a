// SPDX-License-Identifier: Apache-2.0
#include "server/access/role_policy.h"

#include <gtest/gtest.h>

namespace mpsd::access {
namespace {

const RolePolicy kPolicy{501, {"ada", "ops@example.org"}, {"guest", "root"}};

TEST(RolePolicyTest, TheDaemonsAccountAndRootAreAdmins) {
  EXPECT_EQ(kPolicy.OfAccount(501, "guest"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(0, "root"), Role::kAdmin);
}

TEST(RolePolicyTest, OthersAreWhatTheListsSay) {
  EXPECT_EQ(kPolicy.OfAccount(502, "ada"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(503, "guest"), Role::kViewer);
  EXPECT_EQ(kPolicy.OfAccount(504, "bob"), Role::kUser);
  EXPECT_EQ(kPolicy.OfAccount(505, "ops@example.org"), Role::kAdmin);
  EXPECT_EQ(kPolicy.OfAccount(506, "Ada"), Role::kUser);
}

TEST(RolePolicyTest, TheOwnerIsThisProcess) {
  EXPECT_EQ(RolePolicy().owner, geteuid());
}

}  // namespace
}  // namespace mpsd::access
