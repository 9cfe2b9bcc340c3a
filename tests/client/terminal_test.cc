// SPDX-License-Identifier: Apache-2.0
#include "client/terminal.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

TEST(IsUtf8LocaleTest, BySpelling) {
  for (const char* name : {"en_US.UTF-8", "C.utf8", "UTF-8", "de_DE.utf-8@x"}) {
    EXPECT_TRUE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
  for (const char* name : {"C", "POSIX", "en_US.ISO-8859-1", "utf"}) {
    EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, name)) << name;
  }
}

TEST(IsUtf8LocaleTest, TheFirstThatIsSetDecides) {
  EXPECT_FALSE(IsUtf8Locale("C", "C.UTF-8", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale("", "C.UTF-8", "C"));
  EXPECT_FALSE(IsUtf8Locale(nullptr, "C", "C.UTF-8"));
  EXPECT_TRUE(IsUtf8Locale(nullptr, "", "C.UTF-8"));
}

TEST(IsUtf8LocaleTest, AsciiWithoutAny) {
  EXPECT_FALSE(IsUtf8Locale(nullptr, nullptr, nullptr));
  EXPECT_FALSE(IsUtf8Locale("", "", ""));
}

}  // namespace
}  // namespace mpsd::client
