// SPDX-License-Identifier: Apache-2.0
#include "server/http/negotiate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ParsePreferences, ReadsNamesParametersAndQualities) {
  const auto preferences =
      ParsePreferences("Text/Plain;Version=0.0.4 ; q=0.5, a/b ,, */*;q=0.1;x");
  ASSERT_EQ(preferences.size(), 3u);
  EXPECT_EQ(preferences[0].name, "text/plain");
  EXPECT_THAT(preferences[0].parameters, ElementsAre(Pair("version", "0.0.4")));
  EXPECT_EQ(preferences[0].quality, 0.5);
  EXPECT_EQ(preferences[1].name, "a/b");
  EXPECT_EQ(preferences[1].quality, 1);
  EXPECT_EQ(preferences[2].name, "*/*");
  EXPECT_EQ(preferences[2].quality, 0.1);
}

TEST(ParsePreferences, AQualityThatIsNoneIsZero) {
  for (const char* quality : {"", "x", "nan", "-1"}) {
    EXPECT_EQ(ParsePreferences(std::string("a;q=") + quality)[0].quality, 0)
        << quality;
  }
  EXPECT_EQ(ParsePreferences("a;q=7")[0].quality, 1);
  EXPECT_EQ(ParsePreferences("a;q=inf")[0].quality, 0);
  EXPECT_THAT(ParsePreferences(""), IsEmpty());
  EXPECT_THAT(ParsePreferences(",;,"), IsEmpty());
}

TEST(AcceptsGzip, AsTheHeaderSays) {
  for (const char* yes : {"gzip", "GZIP", "deflate, gzip;q=0.5", "*",
                          "identity;q=0, *;q=0.1", "br, gzip"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const char* no :
       {"", "identity", "gzip;q=0", "*, gzip;q=0", "*;q=0", "xgzip", "br"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
}

}  // namespace
}  // namespace mpsd::http
