// SPDX-License-Identifier: Apache-2.0
#include "server/openai/page.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::StartsWith;

absl::StatusOr<Page> Read(const std::string& query) {
  return ReadPage(*http::ParseTarget("/v1/files?" + query));
}

TEST(ReadPage, HasDefaults) {
  const Page page = *Read("");
  EXPECT_EQ(page.limit, 20);
  EXPECT_EQ(page.after, "");
  EXPECT_FALSE(page.oldest_first);
}

TEST(ReadPage, ReadsEachParameter) {
  const Page page = *Read(
      "limit=100&after=file-1&order=asc&purpose=fine-tune&metadata%5Ba%5D=b&"
      "metadata[c]=");
  EXPECT_EQ(page.limit, 100);
  EXPECT_EQ(page.after, "file-1");
  EXPECT_TRUE(page.oldest_first);
  EXPECT_EQ(page.purpose, "fine-tune");
  EXPECT_THAT(page.metadata, ElementsAre(Pair("a", "b"), Pair("c", "")));
}

TEST(ReadPage, RefusesWhatIsNone) {
  std::string many;
  for (int i = 0; i < 17; ++i) many += "metadata[" + std::to_string(i) + "]=x&";
  for (const auto& [query, start] :
       {std::pair<std::string, std::string>{"limit=0", "limit: "},
        {"limit=101", "limit: "},
        {"limit=-1", "limit: "},
        {"limit=99999999999999999999", "limit: "},
        {"limit=many", "limit: "},
        {"order=up", "order: "},
        {"after=" + std::string(129, 'a'), "after: "},
        {"before=x", "query: 'before'"},
        {"metadata[a=x", "query: "},
        {many, "query: "}}) {
    const absl::Status fault = Read(query).status();
    EXPECT_TRUE(absl::IsInvalidArgument(fault)) << query;
    EXPECT_THAT(std::string(fault.message()), StartsWith(start));
  }
}

}  // namespace
}  // namespace mpsd::openai
