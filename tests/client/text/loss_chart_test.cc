// SPDX-License-Identifier: Apache-2.0
#include "client/text/loss_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/text/format.h"

namespace mpsd::client {
namespace {

using Points = std::vector<LossPoint>;

constexpr double kLargest = std::numeric_limits<double>::max();

std::string Text(const Points& steps, const Points& evaluations, int columns,
                 int rows, bool utf8) {
  std::string text;
  for (const std::string& line :
       DrawLosses("t", steps, evaluations, columns, rows, utf8)) {
    text += line + "\n";
  }
  return text;
}

// A loss that falls from 4 to 1 and wavers.
Points Falling() {
  Points points;
  for (int step = 1; step <= 100; ++step) {
    points.push_back({step, 1 + 3.0 / step + (step % 2 == 0 ? 0.4 : -0.4)});
  }
  return points;
}

TEST(LossChartTest, InBraille) {
  EXPECT_EQ(Text(Falling(), {{50, 2}, {100, 1.5}}, 50, 12, true), R"(t
⠒⠢ loss  ◆ eval loss
   3.6┤⡇
      │⢸
      │⢸
      │⠘⣄
      │ ⣿⡄⡀                 ◆
      │ ⢻⢇⡇⣿⢰⢰⢰⡆⡄⣤⢠⢠⢠⡄⡄⣤⢠⢠⢠⡄⡄⡄⣤⢠⢠⡄⡄⡄⣀⢀⢀⡀⡀⡀⣀⢀⢀⡀⡀⡀⣀◆
      │ ⠘⢸⢸⢹⡞⡞⣾⢣⢧⢿⡼⡼⣼⢧⢧⢿⡸⡸⣸⢇⢇⢇⡿⡸⡸⣇⢇⢇⣿⣸⣸⣇⣇⣇⣿⣸⣸⣇⣇⣇⣿⣸
0.6303┤   ⠈⠈⠃⠃⠻⠸⠸⠸⠇⠇⠿⠸⠸⢸⡇⡇⣿⢸⢸⢸⡇⡇⡇⣿⢸⢸⡇⡇⡇⣿⢸⢸⡇⡇⡇⣿⢸⢸⡇⡇
      └───────────────────────────────────────────
       1                                       100
)");
}

TEST(LossChartTest, InAscii) {
  EXPECT_EQ(Text(Falling(), {{50, 2}, {100, 1.5}}, 50, 12, false), R"(t
. loss  o eval loss
   3.6+.
      |.
      |.
      |..
      | ....                o
      | .........................................o
      |  .........................................
0.6303+     ......................................
      +-------------------------------------------
       1                                       100
)");
}

TEST(LossChartTest, TheSmallest) {
  EXPECT_EQ(Text(Falling(), {{50, 2}, {100, 1.5}}, 1, 1, true), R"(t
   3.6┤⣇
0.6303┤⠸⢷⣶⣶⣶⣶◆⣶⣶⣶⣶⣶◆
      └─────────────
       1         100
)");
}

TEST(LossChartTest, OnePoint) {
  EXPECT_EQ(Text({{7, 3}}, {}, 20, 6, true), R"(t
 │
3┤         ⠂
 │
 └──────────────────
  7                7
)");
}

TEST(LossChartTest, Constant) {
  EXPECT_EQ(Text({{1, 2.5}, {2, 2.5}, {3, 2.5}}, {}, 24, 6, false), R"(t
   |
2.5+....................
   |
   +--------------------
    1                  3
)");
}

TEST(LossChartTest, HugeAndNegative) {
  EXPECT_EQ(Text({{0, -kLargest}, {1, kLargest}}, {}, 24, 6, true), R"(t
 1.798e+308┤        ⣀⠤⠒⠉
           │    ⣀⠤⠒⠉
-1.798e+308┤⣀⠤⠒⠉
           └────────────
            0          1
)");
}

TEST(LossChartTest, NeighboursHaveDigitsThatDiffer) {
  EXPECT_EQ(Text({{0, 1000.0001}, {1, 1000.0002}}, {}, 40, 6, true), R"(t
1000.0002┤                    ⢀⣀⣀⠤⠤⠔⠒⠒⠊⠉
         │         ⢀⣀⣀⡠⠤⠤⠒⠒⠊⠉⠉⠁
1000.0001┤⣀⡠⠤⠤⠔⠒⠒⠉⠉⠁
         └──────────────────────────────
          0                            1
)");
}

TEST(LossChartTest, NoPoint) {
  EXPECT_EQ(Text({}, {{3, NAN}}, 20, 5, true), R"(t
0┤
 │
 └──────────────────
  0                0
)");
}

TEST(LossChartTest, ALineBreaksWhereAPointIsLeftOut) {
  EXPECT_EQ(
      Text({{0, 1}, {1, 1}, {2, NAN}, {3, 1}, {4, INFINITY}}, {}, 20, 5, true),
      R"(t
1┤⣀⣀⣀⣀⣀⣀⡀          ⢀
 │
 └──────────────────
  0                3
)");
}

TEST(LossChartTest, AMillionPointsKeepTheirExtremes) {
  Points points;
  for (int i = 0; i < 1'000'000; ++i) points.push_back({i, 5});
  points[123'456].loss = 10;
  points[777'777].loss = 0;
  EXPECT_EQ(Text(points, {}, 40, 8, true), R"(t
10┤    ⢸
  │    ⢸
  │⠒⠒⠒⠒⠚⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⢲⠒⠒⠒⠒⠒⠒⠒⠒
  │                            ⢸
 0┤                            ⢸
  └─────────────────────────────────────
   0                             999,999
)");
}

TEST(LossChartTest, OfTheSizeThatIsAskedFor) {
  Points points = Falling();
  for (const double extreme : {1.0, -1e300, 1.0000000000000002}) {
    points[3].loss = extreme;
    for (int columns = 20; columns <= 130; columns += 11) {
      for (int rows = 5; rows <= 40; ++rows) {
        for (const bool utf8 : {true, false}) {
          const auto lines =
              DrawLosses("t", points, {{5, 1}}, columns, rows, utf8);
          EXPECT_EQ(std::ssize(lines), rows);
          for (const std::string& line : lines) {
            EXPECT_LE(Width(line), columns) << line;
          }
        }
      }
    }
  }
}

// Names of jobs are their users'.
TEST(LossChartTest, TheTitleDoesNotSteerTheTerminal) {
  const char title[] = "naïve\x1b[2J\n\u202e\xff";
  EXPECT_EQ(DrawLosses(title, Falling(), {}, 60, 12, true)[0],
            "naïve\\x1b[2J \\u202e\\xff");
  for (const std::string& line :
       DrawLosses(title, Falling(), {{1, 2}}, 60, 12, false)) {
    EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << line;
  }
}

}  // namespace
}  // namespace mpsd::client
