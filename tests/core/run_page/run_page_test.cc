// SPDX-License-Identifier: Apache-2.0
#include "core/run_page/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace mpsd::run_page {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// What stands in the element of the document.
std::string Embedded(const std::string& page) {
  const std::string begin =
      "<script type=\"application/json\" id=\"run-document\">";
  const size_t at = page.find(begin) + begin.size();
  return page.substr(at, page.find("</script>", at) - at);
}

TEST(RunPageTest, HoldsTheDocumentForOthersToRead) {
  const std::string document = R"({"runs":[{"job":{"name":"a < b"}}]})";
  const std::string page = RunPage(document);
  EXPECT_EQ(nlohmann::json::parse(Embedded(page)),
            nlohmann::json::parse(document));
}

TEST(RunPageTest, NoTextLeavesItsElement) {
  const nlohmann::json document = {
      {"runs",
       {{{"log", "</script><img src=x onerror=alert(1)><!--<script>"},
         {"job", {{"name", "@SCRIPT@ @STYLE@ </ScRiPt>"}}}}}}};
  const std::string page = RunPage(document.dump());
  EXPECT_EQ(Count(page, "</script>"), 2u);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("</ScRiPt")));
  EXPECT_EQ(nlohmann::json::parse(Embedded(page)), document);
}

TEST(RunPageTest, AsksNoNetwork) {
  const std::string page = RunPage("{}");
  EXPECT_FALSE(std::regex_search(
      page, std::regex("<(link|script|img|iframe)[^>]*(src|href)=\"(?!data:)")))
      << "something is loaded";
  EXPECT_FALSE(std::regex_search(page, std::regex(R"(@import|url\()")));
  EXPECT_FALSE(std::regex_search(
      page, std::regex(R"(\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon)")));
}

TEST(RunPageTest, ThePolicyAllowsItsOwnScriptAlone) {
  const std::string policy = ContentSecurityPolicy();
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(Count(policy, "'sha256-"), 2u);
  EXPECT_THAT(RunPage("{}"), HasSubstr(policy));
}

TEST(RunPageTest, KeepsTheLicenceOfUPlot) {
  EXPECT_EQ(Count(RunPage("{}"), "The MIT License (MIT)"), 2u)
      << "once beside uPlot, once for readers";
  EXPECT_THAT(RunPage("{}"), HasSubstr("Leon Sorokin"));
}

TEST(RunPageTest, TheNoticeHasTheLicenceOfThePage) {
  const std::string page = RunPage("{}");
  const std::string begin = "<pre>";
  const size_t at = page.rfind(begin) + begin.size();
  std::ostringstream notice;
  notice << std::ifstream(MPSD_TEST_SOURCE_DIR "/NOTICE").rdbuf();
  EXPECT_THAT(notice.str(),
              HasSubstr(page.substr(at, page.find("</pre>", at) - at)));
}

TEST(RunPageTest, IsKnownByItsHead) {
  const std::string page = RunPage("{}");
  EXPECT_TRUE(BeginsLikeRunPage(page.substr(0, kHeadBytes)));
  EXPECT_FALSE(BeginsLikeRunPage(page.substr(0, 20)));
  EXPECT_FALSE(BeginsLikeRunPage("<!DOCTYPE html><title>my thesis</title>"));
  EXPECT_FALSE(BeginsLikeRunPage(""));
}

TEST(RunPageTest, EveryPlaceholderIsFilled) {
  EXPECT_FALSE(std::regex_search(RunPage("{}"), std::regex("@[A-Z]+@")));
}

}  // namespace
}  // namespace mpsd::run_page
