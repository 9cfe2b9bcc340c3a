// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/core/status_matchers.h"

namespace mpsd::run_page {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The content of the element of the document.
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

TEST(RunPageTest, AsksNoNetworkAndHasItsPolicyItsLicencesAndItsHead) {
  const std::string page = RunPage("{}");
  EXPECT_FALSE(std::regex_search(
      page, std::regex("<(link|script|img|iframe)[^>]*(src|href)=\"(?!data:)")))
      << "something is loaded";
  EXPECT_FALSE(std::regex_search(page, std::regex(R"(@import|url\()")));
  EXPECT_FALSE(std::regex_search(
      page, std::regex(R"(\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon)")));
  EXPECT_FALSE(std::regex_search(page, std::regex("@[A-Z]+@")));
  const std::string policy = ContentSecurityPolicy();
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_EQ(Count(policy, "'sha256-"), 2u);
  EXPECT_THAT(page, HasSubstr(policy));
  EXPECT_EQ(Count(page, "The MIT License (MIT)"), 2u)
      << "once next to uPlot, once for readers";
  EXPECT_THAT(page, HasSubstr("Leon Sorokin"));
  const std::string begin = "<pre>";
  const size_t at = page.rfind(begin) + begin.size();
  std::ostringstream notice;
  notice << std::ifstream(MPSD_TEST_SOURCE_DIR "/NOTICE").rdbuf();
  EXPECT_THAT(notice.str(),
              HasSubstr(page.substr(at, page.find("</pre>", at) - at)));
  EXPECT_TRUE(BeginsLikeRunPage(page.substr(0, kHeadBytes)));
  EXPECT_FALSE(BeginsLikeRunPage(page.substr(0, 20)));
  EXPECT_FALSE(BeginsLikeRunPage("<!DOCTYPE html><title>my thesis</title>"));
  EXPECT_FALSE(BeginsLikeRunPage(""));
}

using nlohmann::json;

TEST(RunDocumentTest, HasWhatItWasGiven) {
  RunData run;
  run.job = R"({"id":"A"})";
  run.events = {R"({"note":"one"})", R"({"note":"two"})"};
  run.log = "line\n";
  run.files["run.json"] = R"({"state": "RUNNING"})";
  run.left_out.steps = 7;
  const json document = json::parse(RunDocument({run, run}));
  ASSERT_EQ(document["runs"].size(), 2u);
  const json& first = document["runs"][0];
  EXPECT_EQ(first["job"]["id"], "A");
  EXPECT_EQ(first["events"][1]["note"], "two");
  EXPECT_EQ(first["log"], "line\n");
  EXPECT_EQ(first["files"]["run.json"], R"({"state": "RUNNING"})");
  EXPECT_EQ(
      first["left_out"],
      json(
          {{"steps", 7}, {"evaluations", 0}, {"events", 0}, {"log_bytes", 0}}));
  EXPECT_EQ(RunDocument({}), R"({"runs":[]})");
}

TEST(RunDocumentTest, BytesThatAreNoTextAreReplaced) {
  RunData run;
  run.job = "{}";
  run.log = std::string("a\xff\x00z\x1b", 5);
  run.files["x\xfe"] = "\xc3";
  const json document = json::parse(RunDocument({run}));
  EXPECT_EQ(document["runs"][0]["log"],
            std::string("a\xEF\xBF\xBD\x00z\x1b", 7));
  EXPECT_EQ(document["runs"][0]["files"].begin().value(), "\xEF\xBF\xBD");
}

std::vector<CurvesPoint> Points(int64_t steps, size_t curves) {
  std::vector<CurvesPoint> points;
  for (int64_t step = 1; step <= steps; ++step) {
    points.push_back({step, {}});
    for (size_t curve = 0; curve < curves; ++curve) {
      points.back().values.push_back(
          std::sin(static_cast<double>(step * (curve + 1))));
    }
  }
  return points;
}

TEST(KeptPointsTest, AllOfAShortRun) {
  EXPECT_THAT(KeptPoints(Points(3, 2), 64), ElementsAre(0, 1, 2));
  EXPECT_EQ(KeptPoints(Points(64, 2), 64).size(), 64u);
  EXPECT_TRUE(KeptPoints({}, 64).empty());
}

TEST(KeptPointsTest, AMillionStepsBecomeAsManyAsAskedFor) {
  const auto kept = KeptPoints(Points(1'000'000, 7), 4000);
  EXPECT_LE(kept.size(), 4000u);
  EXPECT_GT(kept.size(), 2000u);
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), 999'999u);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  // No part of the run is without points.
  for (size_t i = 1; i < kept.size(); ++i) {
    EXPECT_LT(kept[i] - kept[i - 1], 1'000'000u / 100);
  }
}

// What draws a curve: its extremes in every stretch.
TEST(KeptPointsTest, NoPeakOfAnyCurveIsLost) {
  std::vector<CurvesPoint> points = Points(100'000, 3);
  points[12'345].values[0] = 50;
  points[12'346].values[0] = -50;
  points[77'777].values[2] = 9;
  const auto kept = KeptPoints(points, 500);
  EXPECT_LE(kept.size(), 500u);
  for (const size_t peak : {12'345, 12'346, 77'777}) {
    EXPECT_THAT(kept, Contains(peak));
  }
}

TEST(KeptPointsTest, AValueThatIsNotFiniteIsReported) {
  std::vector<CurvesPoint> points = Points(10'000, 2);
  points[5000].values[1] = std::numeric_limits<double>::quiet_NaN();
  points[8000].values[0] = std::numeric_limits<double>::infinity();
  for (size_t i = 9000; i < 10'000; ++i) {
    points[i].values = {std::nan(""), std::nan("")};
  }
  const auto kept = KeptPoints(points, 200);
  EXPECT_THAT(kept, Contains(5000u));
  EXPECT_THAT(kept, Contains(8000u));
  EXPECT_LE(kept.size(), 200u);
}

// A page takes the steps away that were done again: it must see where.
TEST(KeptPointsTest, BothSidesOfAReturnAreKept) {
  std::vector<CurvesPoint> points = Points(5000, 1);
  for (CurvesPoint point : Points(5000, 1)) {
    point.step += 3000;
    points.push_back(point);
  }
  const auto kept = KeptPoints(points, 64);
  EXPECT_LE(kept.size(), 64u);
  EXPECT_THAT(kept, Contains(4999u));
  EXPECT_THAT(kept, Contains(5000u));
}

TEST(KeptPointsTest, ReturnsAtEveryStepDoNotBreakTheBound) {
  std::vector<CurvesPoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({7, {1, 2, 3}});
  EXPECT_LE(KeptPoints(points, 64).size(), 64u);
}

// Steps of the whole range of int64, as a hostile worker may count them.
TEST(KeptPointsTest, StepsMayBeAnything) {
  std::vector<CurvesPoint> points;
  for (int i = 0; i < 1000; ++i) {
    points.push_back({i % 2 == 0 ? std::numeric_limits<int64_t>::min()
                                 : std::numeric_limits<int64_t>::max(),
                      {1.0}});
  }
  EXPECT_LE(KeptPoints(points, 64).size(), 64u);
}

}  // namespace
}  // namespace mpsd::run_page
