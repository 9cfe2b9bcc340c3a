// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLOT_CELL_GRID_H_
#define MPSD_CLIENT_PLOT_CELL_GRID_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mpsd::client {

// A rectangle of a screen to draw on: dots, which are smaller than a character
// where the screen shows Braille (2×4 a character; else '.', one a character),
// and characters over the dots. (0, 0) is at the top left.
class CellGrid {
 public:
  CellGrid(int columns, int rows, bool utf8);

  int dot_columns() const { return columns_ * (utf8_ ? 2 : 1); }
  int dot_rows() const { return rows_ * (utf8_ ? 4 : 1); }

  // Positions are within the grid.
  void Dot(int x, int y);                       // in dots
  void Line(int x, int y, int to_x, int to_y);  // in dots, both ends included
  // Puts one character in front of the dots of a cell.
  void Put(int column, int row, const std::string& character);

  // One row, without spaces at its end.
  std::string Row(int row) const;

 private:
  const int columns_;
  const int rows_;
  const bool utf8_;
  std::vector<uint8_t> dots_;            // a bit a dot, as Unicode numbers them
  std::vector<std::string> characters_;  // empty: the dots show
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLOT_CELL_GRID_H_
