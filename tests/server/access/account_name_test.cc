// SPDX-License-Identifier: Apache-2.0
#include "server/access/account_name.h"

#include <gtest/gtest.h>

namespace mpsd::access {
namespace {

constexpr uid_t kNobodys = 3'999'999'999;  // no account has this number

TEST(AccountNameTest, RootIsRoot) {
  const absl::StatusOr<std::string> name = AccountName(0);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "root");
}

TEST(AccountNameTest, AnAccountWithoutANameIsItsNumber) {
  const absl::StatusOr<std::string> name = AccountName(kNobodys);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*name, "uid-3999999999");
}

TEST(AccountNameTest, ANameThatNoUserMayHaveIsTheNumber) {
  EXPECT_EQ(UserOf(7, "ada"), "ada");
  for (const char* name : {"", "Ada Lovelace", "DOMAIN\\ada", "a\nb"}) {
    EXPECT_EQ(UserOf(7, name), "uid-7") << name;
  }
}

TEST(AccountNameTest, NoAccountPassesForAnother) {
  EXPECT_EQ(UserOf(7, "uid-8"), "uid-7");
}

}  // namespace
}  // namespace mpsd::access
