// SPDX-License-Identifier: Apache-2.0
#include "server/http/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ParseTarget, ReadsPathAndQuery) {
  const auto target =
      ParseTarget("/api//jobs/a%2Fb%20c+d?states=X&states=Y&o=a+b%26%3D&flag");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("api", "jobs", "a/b c+d"));
  EXPECT_THAT(target->query,
              ElementsAre(Pair("states", "X"), Pair("states", "Y"),
                          Pair("o", "a b&="), Pair("flag", "")));
  EXPECT_THAT(ParseTarget("/")->path, IsEmpty());
  EXPECT_THAT(ParseTarget("/?")->query, IsEmpty());
}

TEST(ParseTarget, RefusesWhatIsNone) {
  for (const char* text :
       {"", "*", "http://host/", "jobs", "/%", "/%4", "/%zz", "/%+1", "/%00",
        "/a%0ab", "/?a=%1f", "/?%7f=a", "/%-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTarget(text).status())) << text;
  }
}

}  // namespace
}  // namespace mpsd::http
