// SPDX-License-Identifier: Apache-2.0
#include "client/text/svg_chart.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(SvgChart, HasItsTextsCurvesAndMarks) {
  SvgChart chart;
  chart.title = "Throughput";
  chart.x_name = "rows";
  chart.y_name = "tokens a second";
  chart.x_scale = SvgChart::Scale::kPowersOfTwo;
  chart.curves = {{"tokens/s", {{1, 1000}, {2, 1900}, {4, 2500}}},
                  {"memory", {{1, 1e9}, {2, 2e9}, {4, 3e9}}, true}};
  chart.marks = {{2, "the knee"}};
  const std::string svg = chart.Draw();
  for (const char* part :
       {"<svg xmlns=", "<title>Throughput</title>", ">rows<", ">2 G<",
        ">tokens a second<", ">the knee<", ">memory<", "M76.0 ", "</svg>\n"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  // Doublings have equal distances: the second of three points is in the
  // middle.
  EXPECT_THAT(svg, HasSubstr("L360.0 "));
}

TEST(SvgChart, TheNamesOfNeighboursStandBelowEachOther) {
  SvgChart chart;
  chart.curves = {{"c", {{0, 1}, {1000, 2}}}};
  chart.marks = {{500, "knee"}, {501, "largest"}};
  const std::string svg = chart.Draw();
  const auto line_of = [&](const std::string& text) {
    const size_t name = svg.find(">" + text + "<");
    EXPECT_NE(name, std::string::npos) << text;
    const size_t y = svg.rfind(" y=\"", name);
    return svg.substr(y, svg.find('"', y + 4) - y);
  };
  EXPECT_NE(line_of("knee"), line_of("largest"));
}

TEST(SvgChart, HostileTextsStayTexts) {
  SvgChart chart;
  chart.title = "</title><script>alert(1)</script>\x1b\xff";
  chart.curves = {{"\"><img onerror='x'>", {{0, 1}, {1, 2}}}};
  chart.marks = {{0.5, "<b>&"}};
  const std::string svg = chart.Draw();
  for (const char* part : {"<script", "<img", "<b>", "\x1b", "\xff"}) {
    EXPECT_THAT(svg, Not(HasSubstr(part))) << part;
  }
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
}

TEST(SvgChart, NumbersThatAreNoneLeaveGaps) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  SvgChart chart;
  chart.curves = {{"a", {{0, 1}, {1, nan}, {2, 3}, {3, infinity}, {nan, 4}}}};
  chart.marks = {{infinity, "never"}};
  const std::string svg = chart.Draw();
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, Not(HasSubstr("never")));
  EXPECT_THAT(svg, Not(HasSubstr("L6"))) << "no line over the gap";
}

TEST(SvgChart, WithoutPointsItIsStillAChart) {
  SvgChart chart;
  EXPECT_THAT(chart.Draw(), HasSubstr("</svg>"));
  chart.curves = {{"flat", {{1, 5}, {1, 5}}}};
  EXPECT_THAT(chart.Draw(), Not(HasSubstr("nan")));
  chart.x_scale = SvgChart::Scale::kPowersOfTwo;
  chart.curves = {{"no place", {{0, 5}, {-2, 5}}}};
  EXPECT_THAT(chart.Draw(), Not(HasSubstr("nan")));
}

TEST(RoundTicks, AreRoundAndWithin) {
  EXPECT_THAT(RoundTicks(0, 10, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(RoundTicks(0, 7, 5), ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(RoundTicks(3, 3, 6).size(), 2u);
  for (const double high : {1e-9, 0.37, 12.5, 9e12}) {
    const std::vector<double> ticks = RoundTicks(0, high, 6);
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 6u);
    EXPECT_LE(ticks.back(), high * (1 + 1e-9));
  }
}

TEST(XmlText, KeepsLettersOfAllKinds) {
  EXPECT_EQ(XmlText("ä日 a\tb"), "ä日 a\tb");
  EXPECT_EQ(XmlText("\x01\xff\x7f"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace mpsd::client
