// SPDX-License-Identifier: Apache-2.0
#include "client/plot/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::string Text(const Chart& chart, int columns, int rows, bool utf8) {
  std::string text;
  for (const std::string& line : Draw(chart, columns, rows, utf8).lines) {
    text += line + "\n";
  }
  return text;
}

// A curve that falls from 4 to 1, its mean and two marks.
Chart ThreeCurves() {
  Chart chart;
  chart.title = "loss by step";
  chart.counts_x = true;
  Curve each{"each step", CurveStyle::kDots, {}};
  Curve mean{"smoothed", CurveStyle::kHeavy, {}};
  for (int step = 1; step <= 100; ++step) {
    const double value = 1 + 3.0 / step;
    each.points.push_back({1.0 * step, value + (step % 2 == 0 ? 0.4 : -0.4)});
    mean.points.push_back({1.0 * step, value});
  }
  Curve marks{"evaluations", CurveStyle::kMarks, {{50, 2}, {100, 1.5}}};
  chart.curves = {each, mean, marks};
  return chart;
}

Chart OneCurve(std::vector<CurvePoint> points) {
  Chart chart;
  chart.title = "t";
  chart.curves.push_back({"", CurveStyle::kDots, std::move(points)});
  return chart;
}

TEST(ChartTest, ThreeCurvesInBraille) {
  EXPECT_EQ(Text(ThreeCurves(), 50, 12, true), R"(loss by step
⠒⠢ each step   ━ smoothed   ◆ evaluations
4┤
 │⢇
 │━
 │⢸┃
2┤ ━⢀                    ◆
 │ ⠟━━⢰⢠⡄⡄⡄⡀⡀⡀⡀⡀⡀⡀⡀⡀⣀⢀⢀⢀⢀⢀⢀⢀⢀⢀⢀⢀⡀                ◆
 │  ⠇⡇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
 │    ⠁⠃⠛⠸⠸⠸⠸⠸⠸⠸⠸⠸⠸⢸⡇⡇⡇⡇⡇⡇⡇⡇⡇⡇⡇⣿⢸⢸⢸⢸⢸⢸⢸⢸⢸⢸⢸⢸⡇⡇⡇⡇⡇⡇
 └───────────────────────┬───────────────────────┬
                        50                     100
)");
}

TEST(ChartTest, ThreeCurvesInAscii) {
  EXPECT_EQ(Text(ThreeCurves(), 50, 12, false), R"(loss by step
. each step   * smoothed   o evaluations
4+
 |.
 |*
 |.*
2+ *.                    o
 | .**...........................................o
 |  ..********************************************
 |      ..........................................
 +-----------------------+-----------------------+
                        50                     100
)");
}

TEST(ChartTest, TheSmallest) {
  EXPECT_EQ(Text(ThreeCurves(), 20, 5, true), R"(loss by step
4┤━
2┤⠸━━━━━━━◆━━━━━━━━◆
 └┬────────────────┬
  1              100
)");
  EXPECT_EQ(Text(ThreeCurves(), 20, 5, false), R"(loss by step
4+*
2+.*******o********o
 ++----------------+
  1              100
)");
}

TEST(ChartTest, Logarithmic) {
  Chart chart = OneCurve({{0, 1000}, {1, 100}, {2, 10}, {3, 1}});
  chart.spread = Spread::kLogarithmic;
  EXPECT_EQ(Text(chart, 24, 9, true), R"(t
   │⠑⠢⢄
   │   ⠉⠢⢄⡀
100┤      ⠈⠒⠤⣀
   │          ⠉⠒⠤⡀
   │             ⠈⠑⠢⣀
  1┤                 ⠑⠢⢄
   └┬──────────────────┬
    0                  3
)");
}

TEST(ChartTest, OnePoint) {
  EXPECT_EQ(Text(OneCurve({{7, -3}}), 20, 6, true), R"(t
  │
-3┤        ⠠
  │
  └────────┬────────
           7
)");
}

TEST(ChartTest, Constant) {
  EXPECT_EQ(Text(OneCurve({{1, 2.5}, {2, 2.5}, {3, 2.5}}), 24, 6, false), R"(t
   |
2.5+....................
   |
   ++------------------+
    1                  3
)");
}

TEST(ChartTest, HugeAndNegative) {
  EXPECT_EQ(Text(OneCurve({{0, -kLargest}, {1, kLargest}}), 24, 6, true), R"(t
 1.8e+308┤         ⢀⡠⠤⠒⠉
         │    ⢀⣀⠤⠒⠉⠁
-1.8e+308┤⣀⠤⠒⠊⠁
         └┬────────────┬
          0            1
)");
}

TEST(ChartTest, NoPoint) {
  EXPECT_EQ(Text(OneCurve({}), 20, 5, true), R"(t
1.0┤
0.5┤
   └┬──────────────┬
    0              1
)");
}

TEST(ChartTest, ALineBreaksWhereAPointIsLeftOut) {
  const Chart chart =
      OneCurve({{0, 1}, {1, 1}, {2, NAN}, {3, 1}, {4, INFINITY}, {NAN, 2}});
  EXPECT_EQ(Draw(chart, 20, 5, true).left_out, 3);
  EXPECT_EQ(Text(chart, 20, 5, true), R"(t
 │
1┤⠉⠉⠉⠉⠉⠉⠁          ⠈
 └┬────────────────┬
  0                3
)");
}

TEST(ChartTest, ALogarithmHoldsNothingBelowZero) {
  Chart chart = OneCurve({{0, 0}, {1, -1}, {2, 1}});
  EXPECT_EQ(Draw(chart, 20, 5, true).left_out, 0);
  chart.spread = Spread::kLogarithmic;
  EXPECT_EQ(Draw(chart, 20, 5, true).left_out, 2);
}

TEST(ChartTest, AMillionPointsKeepTheirExtremes) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 1'000'000; ++i) points.push_back({1.0 * i, 5});
  points[123'456].y = 10;
  points[777'777].y = 0;
  EXPECT_EQ(Text(OneCurve(points), 40, 8, true), R"(t
10┤    ⢸
  │    ⢸
 5┤⠤⠤⠤⠤⠼⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⢤⠤⠤⠤⠤⠤⠤⠤⠤
  │                            ⢸
 0┤                            ⢸
  └┬─────────────────┬──────────────────
   0              500,000
)");
}

TEST(ChartTest, OfTheSizeThatIsAskedFor) {
  Chart chart = ThreeCurves();
  chart.curves[0].points[3].y = -1e300;
  for (int columns = kFewestColumns; columns <= 130; columns += 11) {
    for (int rows = kFewestRows; rows <= 40; ++rows) {
      for (const bool utf8 : {true, false}) {
        const Drawing drawing = Draw(chart, columns, rows, utf8);
        EXPECT_EQ(std::ssize(drawing.lines), rows);
        for (const std::string& line : drawing.lines) {
          EXPECT_LE(Width(line), columns) << line;
        }
      }
    }
  }
}

// Names of jobs and metrics are their users' and workers'.
TEST(ChartTest, NamesDoNotSteerTheTerminal) {
  Chart chart = ThreeCurves();
  chart.title = "naïve\x1b[2J\n\u202e\xff";
  chart.curves[0].name = "a\x07\r";
  const Drawing drawing = Draw(chart, 60, 12, true);
  EXPECT_EQ(drawing.lines[0], "naïve\\x1b[2J \\u202e\\xff");
  EXPECT_EQ(drawing.lines[1], "⠒⠢ a\\x07    ━ smoothed   ◆ evaluations");
  const std::string ascii = Text(chart, 60, 12, false);
  EXPECT_TRUE(ascii.starts_with("na?ve\\x1b[2J ")) << ascii;
  EXPECT_TRUE(std::all_of(ascii.begin(), ascii.end(), [](char c) {
    return c == '\n' || (c >= ' ' && c <= '~');
  })) << ascii;
}

TEST(ChartDeathTest, NoSmallerThanTheSmallest) {
  EXPECT_DEATH(Draw(Chart(), 19, 5, true), "not smaller than the smallest");
  EXPECT_DEATH(Draw(Chart(), 20, 4, true), "not smaller than the smallest");
}

}  // namespace
}  // namespace mpsd::client
