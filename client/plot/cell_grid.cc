// SPDX-License-Identifier: Apache-2.0
#include "client/plot/cell_grid.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/check.h"

namespace mpsd::client {
namespace {

// The bits of U+2800 to U+28FF, by column and row of the dot.
constexpr uint8_t kBits[2][4] = {{0x01, 0x02, 0x04, 0x40},
                                 {0x08, 0x10, 0x20, 0x80}};

std::string Braille(uint8_t dots) {
  return {'\xE2', static_cast<char>(0xA0 + (dots >> 6)),
          static_cast<char>(0x80 + (dots & 0x3F))};
}

}  // namespace

CellGrid::CellGrid(int columns, int rows, bool utf8)
    : columns_(columns), rows_(rows), utf8_(utf8) {
  base::Check(columns > 0 && rows > 0, "a grid has a column and a row");
  dots_.resize(static_cast<size_t>(columns) * rows);
  characters_.resize(dots_.size());
}

void CellGrid::Dot(int x, int y) {
  base::Check(x >= 0 && x < dot_columns() && y >= 0 && y < dot_rows(),
              "a dot lies within the grid");
  if (utf8_) {
    dots_[static_cast<size_t>(y / 4) * columns_ + x / 2] |= kBits[x % 2][y % 4];
  } else {
    dots_[static_cast<size_t>(y) * columns_ + x] = 1;
  }
}

void CellGrid::Line(int x, int y, int to_x, int to_y) {
  const int steps = std::max(std::abs(to_x - x), std::abs(to_y - y));
  for (int i = 0; i <= steps; ++i) {
    const auto between = [&](int from, int to) {
      // Rounded to the nearer dot; the sum is never negative.
      return steps == 0
                 ? from
                 : (2 * (from * (steps - i) + to * i) + steps) / (2 * steps);
    };
    Dot(between(x, to_x), between(y, to_y));
  }
}

void CellGrid::Put(int column, int row, const std::string& character) {
  base::Check(column >= 0 && column < columns_ && row >= 0 && row < rows_,
              "a character lies within the grid");
  characters_[static_cast<size_t>(row) * columns_ + column] = character;
}

std::string CellGrid::Row(int row) const {
  std::string text;
  size_t end = 0;  // behind the last character that is no space
  for (int column = 0; column < columns_; ++column) {
    const size_t cell = static_cast<size_t>(row) * columns_ + column;
    if (!characters_[cell].empty()) {
      text += characters_[cell];
    } else if (dots_[cell] == 0) {
      text += ' ';
      continue;
    } else {
      text += utf8_ ? Braille(dots_[cell]) : ".";
    }
    end = text.size();
  }
  return text.substr(0, end);
}

}  // namespace mpsd::client
