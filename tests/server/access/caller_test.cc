// SPDX-License-Identifier: Apache-2.0
#include "server/access/caller.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/limits.h"

namespace mpsd::access {
namespace {

TEST(CallerTest, NamesOfAccountsMailboxesAndCertificatesAreUsers) {
  for (const char* name : {"ada", "_mpsd", "ada.lovelace@example.org", "a",
                           "0day", "ci-runner+7"}) {
    EXPECT_TRUE(IsUserName(name)) << name;
  }
}

TEST(CallerTest, NamesThatATerminalAPathOrAQueryWouldReadOtherwiseAreNone) {
  for (const char* name : {"", " ada", "ada ", "-rf", ".ada", "@ada", "a/b",
                           "a b", "a\nb", "a\x1b[2J", "ad\xc3\xa4", "a,b"}) {
    EXPECT_FALSE(IsUserName(name)) << name;
  }
}

TEST(CallerTest, ANameMayHaveSoManyBytesAndNoMore) {
  EXPECT_TRUE(IsUserName(std::string(limits::kUserBytes, 'a')));
  EXPECT_FALSE(IsUserName(std::string(limits::kUserBytes + 1, 'a')));
}

TEST(CallerTest, RolesAndWaysHaveNames) {
  EXPECT_EQ(Name(Role::kViewer), "viewer");
  EXPECT_EQ(Name(Role::kAdmin), "admin");
  EXPECT_LT(Role::kViewer, Role::kUser);
  EXPECT_LT(Role::kUser, Role::kAdmin);
}

}  // namespace
}  // namespace mpsd::access
