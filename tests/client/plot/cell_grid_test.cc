// SPDX-License-Identifier: Apache-2.0
#include "client/plot/cell_grid.h"

#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

TEST(CellGridTest, EachDotOfACharacter) {
  constexpr const char* kDots[4][2] = {
      {"⠁", "⠈"}, {"⠂", "⠐"}, {"⠄", "⠠"}, {"⡀", "⢀"}};
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 2; ++x) {
      CellGrid grid(1, 1, true);
      grid.Dot(x, y);
      EXPECT_EQ(grid.Row(0), kDots[y][x]);
    }
  }
}

TEST(CellGridTest, DotsOfACharacterAddUp) {
  CellGrid grid(2, 1, true);
  grid.Line(2, 0, 2, 3);
  grid.Line(3, 0, 3, 3);
  EXPECT_EQ(grid.Row(0), " ⣿");
}

TEST(CellGridTest, LinesInAscii) {
  CellGrid grid(5, 3, false);
  EXPECT_EQ(grid.dot_columns(), 5);
  EXPECT_EQ(grid.dot_rows(), 3);
  grid.Line(0, 2, 4, 0);
  EXPECT_EQ(grid.Row(0), "    .");
  EXPECT_EQ(grid.Row(1), "  ..");
  EXPECT_EQ(grid.Row(2), "..");
}

TEST(CellGridTest, ALineBackwardsHasTheSameEnds) {
  CellGrid grid(3, 1, false);
  grid.Line(2, 0, 0, 0);
  EXPECT_EQ(grid.Row(0), "...");
}

TEST(CellGridTest, ACharacterHidesTheDots) {
  CellGrid grid(3, 1, true);
  grid.Line(0, 0, 5, 0);
  grid.Put(1, 0, "◆");
  EXPECT_EQ(grid.Row(0), "⠉◆⠉");
}

TEST(CellGridTest, NoSpacesAtTheEnd) {
  CellGrid grid(9, 2, true);
  grid.Put(2, 0, "x");
  EXPECT_EQ(grid.Row(0), "  x");
  EXPECT_EQ(grid.Row(1), "");
}

TEST(CellGridDeathTest, NothingBeyondTheGrid) {
  CellGrid grid(3, 2, true);
  EXPECT_DEATH(grid.Dot(6, 0), "a dot lies within the grid");
  EXPECT_DEATH(grid.Put(0, 2, "x"), "a character lies within the grid");
  EXPECT_DEATH(CellGrid(0, 1, true), "a grid has a column and a row");
}

}  // namespace
}  // namespace mpsd::client
