// SPDX-License-Identifier: Apache-2.0
#include "client/text/loss_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr int kRowsWithLegend = 10;
constexpr int kMark = 0x100;  // in a cell, over its dots

// What an axis spans.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  void Add(double value) {
    low = empty ? value : std::min(low, value);
    high = empty ? value : std::max(high, value);
    empty = false;
  }
  // The place of `value` in `count` places; in the middle where all values are
  // equal. Halves, because the whole range may be more than a double holds.
  int Place(double value, int count) const {
    const double share =
        low < high ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
    return static_cast<int>(std::lround(share * (count - 1)));
  }
  // An end, in digits that tell it from the other one.
  std::string Text(double value) const {
    const double ratio =
        std::max(std::abs(low), std::abs(high)) / 2 / (high / 2 - low / 2);
    const int digits =
        std::isfinite(ratio)
            ? std::clamp(static_cast<int>(std::log10(ratio)) + 3, 4, 17)
            : 6;
    return absl::StrFormat("%.*g", digits, value);
  }
};

// Characters between the axes, as bits: a bit a dot as Braille numbers them.
struct Grid {
  int columns, rows;
  bool utf8;
  Range x, y;
  std::vector<int> cells = std::vector<int>(columns * rows);

  void Dot(int at_x, int at_y) {
    constexpr int kBits[2][4] = {{0x01, 0x02, 0x04, 0x40},
                                 {0x08, 0x10, 0x20, 0x80}};
    cells[utf8 ? at_y / 4 * columns + at_x / 2 : at_y * columns + at_x] |=
        utf8 ? kBits[at_x % 2][at_y % 4] : 1;
  }

  // Joins each point to the one before, so that a column of many points shows
  // the whole range from its least to its greatest value.
  void Line(const std::vector<LossPoint>& points) {
    bool joins = false;
    int from_x = 0, from_y = 0;
    for (const LossPoint& p : points) {
      const bool joined = joins;
      joins = std::isfinite(p.loss);
      if (!joins) continue;
      const int height = rows * (utf8 ? 4 : 1);
      const int to_x =
          x.Place(static_cast<double>(p.step), columns * (utf8 ? 2 : 1));
      const int to_y = height - 1 - y.Place(p.loss, height);
      if (!joined) from_x = to_x, from_y = to_y;
      const int dots =
          std::max({std::abs(to_x - from_x), std::abs(to_y - from_y), 1});
      for (int i = 0; i <= dots; ++i) {
        const double share = static_cast<double>(i) / dots;
        Dot(static_cast<int>(std::lround(from_x + share * (to_x - from_x))),
            static_cast<int>(std::lround(from_y + share * (to_y - from_y))));
      }
      from_x = to_x, from_y = to_y;
    }
  }

  void Marks(const std::vector<LossPoint>& points) {
    for (const LossPoint& p : points) {
      if (!std::isfinite(p.loss)) continue;
      cells[(rows - 1 - y.Place(p.loss, rows)) * columns +
            x.Place(static_cast<double>(p.step), columns)] |= kMark;
    }
  }

  // One row, without spaces at its end.
  std::string Row(int row) const {
    std::string text;
    size_t end = 0;
    for (int column = 0; column < columns; ++column) {
      const int cell = cells[row * columns + column];
      text += cell == 0             ? " "
              : (cell & kMark) != 0 ? (utf8 ? "◆" : "o")
              : !utf8
                  ? "."
                  // U+2800 and the bits
                  : std::string{'\xE2', static_cast<char>(0xA0 + (cell >> 6)),
                                static_cast<char>(0x80 + (cell & 0x3F))};
      if (cell != 0) end = text.size();
    }
    return text.substr(0, end);
  }
};

}  // namespace

std::vector<std::string> DrawLosses(const std::string& title,
                                    const std::vector<LossPoint>& steps,
                                    const std::vector<LossPoint>& evaluations,
                                    int columns, int rows, bool utf8) {
  columns = std::max(columns, 20);
  rows = std::max(rows, 5);
  std::vector<std::string> lines = {Fitted(title, columns, utf8)};
  if (rows >= kRowsWithLegend && !steps.empty() && !evaluations.empty()) {
    lines.push_back(utf8 ? "⠒⠢ loss  ◆ eval loss" : ". loss  o eval loss");
  }
  Range x, y;
  for (const auto* points : {&steps, &evaluations}) {
    for (const LossPoint& p : *points) {
      if (!std::isfinite(p.loss)) continue;
      x.Add(static_cast<double>(p.step));
      y.Add(p.loss);
    }
  }
  const int height = rows - static_cast<int>(lines.size()) - 2;
  std::vector<std::string> numbers(height);
  for (int row = 0; row < height; ++row) {
    const bool is_end = row == 0 || row == height - 1;
    // Equal losses lie in the middle.
    if (y.low < y.high ? !is_end : row != (height - 1) / 2) continue;
    numbers[row] = y.Text(row == 0 ? y.high : y.low);
    numbers[row].resize(std::min<size_t>(numbers[row].size(), columns / 2));
  }
  size_t margin = 0;
  for (const std::string& text : numbers) {
    margin = std::max(margin, text.size());
  }
  Grid grid{columns - static_cast<int>(margin) - 1, height, utf8, x, y};
  grid.Line(steps);
  grid.Marks(evaluations);
  for (int row = 0; row < height; ++row) {
    const bool tick = !numbers[row].empty();
    lines.push_back(absl::StrFormat(
        "%*s%s%s", margin, numbers[row],
        utf8 ? (tick ? "┤" : "│") : (tick ? "+" : "|"), grid.Row(row)));
  }
  std::string axis = std::string(margin, ' ') + (utf8 ? "└" : "+");
  for (int i = 0; i < grid.columns; ++i) axis += utf8 ? "─" : "-";
  lines.push_back(axis);
  const std::string first = Count(x.low), last = Count(x.high);
  const int gap = std::max(grid.columns - Width(first) - Width(last), 1);
  lines.push_back(Fitted(absl::StrCat(std::string(margin + 1, ' '), first,
                                      std::string(gap, ' '), last),
                         columns, utf8));
  return lines;
}

}  // namespace mpsd::client
