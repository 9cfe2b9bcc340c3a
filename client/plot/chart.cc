// SPDX-License-Identifier: Apache-2.0
#include "client/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/plot/cell_grid.h"
#include "client/text/format.h"
#include "core/base/check.h"

namespace mpsd::client {
namespace {

// The characters of a drawing.
struct Pen {
  const char* heavy;
  const char* upright;  // of a heavy line that jumps
  const char* mark;
  const char* dots;  // in the legend
  const char* left;  // the axes
  const char* left_tick;
  const char* corner;
  const char* bottom;
  const char* bottom_tick;
};
constexpr Pen kUnicode = {"━", "┃", "◆", "⠒⠢", "│", "┤", "└", "─", "┬"};
constexpr Pen kAscii = {"*", "*", "o", ".", "|", "+", "+", "-", "+"};

constexpr int kRowsWithLegend = 10;
constexpr int kRowsPerTick = 3;
constexpr int kColumnsPerTick = 14;

// `text` on one line of at most `columns` characters.
std::string Fitted(const std::string& text, int columns, bool utf8) {
  const std::string clean = Printable(text);
  if (utf8) return Cut(clean, columns);
  std::string ascii;
  for (const char c : clean) {
    if ((c & 0x80) == 0) {
      ascii += c;
    } else if ((c & 0xC0) == 0xC0) {  // the first byte of a character
      ascii += '?';
    }
  }
  return ascii.substr(0, columns);
}

// A sign and a name for each curve, in at most `columns` characters; empty for
// fewer than two names.
std::string Legend(const Chart& chart, const Pen& pen, int columns, bool utf8) {
  std::string text;
  int names = 0;
  for (const Curve& curve : chart.curves) {
    if (curve.name.empty() || curve.points.empty()) continue;
    const std::string sign =
        absl::StrCat(names++ == 0 ? "" : "   ",
                     curve.style == CurveStyle::kDots    ? pen.dots
                     : curve.style == CurveStyle::kHeavy ? pen.heavy
                                                         : pen.mark,
                     " ");
    const int room = columns - Width(text) - Width(sign);
    if (room < 1) break;
    absl::StrAppend(&text, sign, Fitted(curve.name, room, utf8));
  }
  return names > 1 ? text : "";
}

// The position of a share in `count` places.
int Place(double share, int count) {
  return static_cast<int>(std::lround(share * (count - 1)));
}

// Draws the curves between two axes.
class Plotter {
 public:
  Plotter(const Axis& x, const Axis& y, const Pen& pen, CellGrid& grid,
          int columns, int rows)
      : x_(x), y_(y), pen_(pen), grid_(grid), columns_(columns), rows_(rows) {}

  void Draw(const Curve& curve) {
    switch (curve.style) {
      case CurveStyle::kDots:
        return Dots(curve);
      case CurveStyle::kHeavy:
        return Heavy(curve);
      case CurveStyle::kMarks:
        for (const CurvePoint& p : curve.points) {
          if (!Holds(p)) continue;
          grid_.Put(Place(x_.Share(p.x), columns_),
                    Place(1 - y_.Share(p.y), rows_), pen_.mark);
        }
    }
  }

 private:
  bool Holds(const CurvePoint& p) const {
    return x_.Holds(p.x) && y_.Holds(p.y);
  }

  struct Spot {
    bool known = false;
    int x = 0;
    int y = 0;
  };

  // Joins each point to the one before, so that a column of many points shows
  // the whole range from its least to its greatest value.
  void Dots(const Curve& curve) {
    Spot last;
    for (const CurvePoint& p : curve.points) {
      if (!Holds(p)) {
        last.known = false;
        continue;
      }
      const Spot spot = {true, Place(x_.Share(p.x), grid_.dot_columns()),
                         Place(1 - y_.Share(p.y), grid_.dot_rows())};
      if (!last.known) last = spot;
      grid_.Line(last.x, last.y, spot.x, spot.y);
      last = spot;
    }
  }

  // One character a column, at the mean of its points; upright lines join rows
  // that are further apart.
  void Heavy(const Curve& curve) {
    Spot last;
    for (size_t i = 0; i < curve.points.size();) {
      if (!Holds(curve.points[i])) {
        last.known = false;
        ++i;
        continue;
      }
      const int column = Place(x_.Share(curve.points[i].x), columns_);
      double shares = 0;
      int count = 0;
      for (; i < curve.points.size() && Holds(curve.points[i]) &&
             Place(x_.Share(curve.points[i].x), columns_) == column;
           ++i, ++count) {
        shares += y_.Share(curve.points[i].y);
      }
      const Spot spot = {true, column, Place(1 - shares / count, rows_)};
      JoinHeavy(last.known ? last : spot, spot);
      last = spot;
    }
  }

  // Goes on from `from` to the column before `to`, then up or down to it.
  void JoinHeavy(const Spot& from, const Spot& to) {
    int row = from.y;
    for (int x = from.x + 1; x < to.x; ++x) {
      const double share = static_cast<double>(x - from.x) / (to.x - from.x);
      row = static_cast<int>(std::lround(from.y + share * (to.y - from.y)));
      grid_.Put(x, row, pen_.heavy);
    }
    for (int y = std::min(row, to.y) + 1; y < std::max(row, to.y); ++y) {
      grid_.Put(to.x, y, pen_.upright);
    }
    grid_.Put(to.x, to.y, pen_.heavy);
  }

  const Axis& x_;
  const Axis& y_;
  const Pen& pen_;
  CellGrid& grid_;
  const int columns_;
  const int rows_;
};

// The line of dashes under the curves, and the numbers under it.
std::vector<std::string> Bottom(const Axis& axis, const Pen& pen, int margin,
                                int columns, double least_step) {
  std::vector<std::string> line(columns, pen.bottom);
  std::string numbers(margin + 1 + columns, ' ');
  int free = 0;  // the first column of `numbers` that may be written to
  for (const Tick& tick : axis.Ticks(columns / kColumnsPerTick, least_step)) {
    const int column = Place(axis.Share(tick.value), columns);
    const int width = static_cast<int>(tick.text.size());
    const int begin = std::min(std::max(margin + 1 + column - width / 2, 0),
                               static_cast<int>(numbers.size()) - width);
    if (begin < free) continue;
    numbers.replace(begin, width, tick.text);
    free = begin + width + 1;
    line[column] = pen.bottom_tick;
  }
  std::string dashes = std::string(margin, ' ') + pen.corner;
  for (const std::string& dash : line) dashes += dash;
  return {dashes, numbers.substr(0, numbers.find_last_not_of(' ') + 1)};
}

// The number beside each row, empty for a row without one.
std::vector<std::string> Numbers(const Axis& axis, int rows) {
  std::vector<std::string> numbers(rows);
  for (const Tick& tick : axis.Ticks(std::max(rows / kRowsPerTick, 2), 0)) {
    numbers[Place(1 - axis.Share(tick.value), rows)] = tick.text;
  }
  return numbers;
}

// Widens the axes to the points that they hold; returns how many they do not.
int64_t Fit(const Chart& chart, Axis* x, Axis* y) {
  int64_t left_out = 0;
  for (const Curve& curve : chart.curves) {
    for (const CurvePoint& p : curve.points) {
      if (!x->Holds(p.x) || !y->Holds(p.y)) {
        ++left_out;
        continue;
      }
      x->Add(p.x);
      y->Add(p.y);
    }
  }
  return left_out;
}

}  // namespace

Drawing Draw(const Chart& chart, int columns, int rows, bool utf8) {
  base::Check(columns >= kFewestColumns && rows >= kFewestRows,
              "a chart is not smaller than the smallest");
  const Pen& pen = utf8 ? kUnicode : kAscii;
  Axis x(Spread::kLinear), y(chart.spread);
  Drawing drawing;
  drawing.left_out = Fit(chart, &x, &y);
  std::vector<std::string>& lines = drawing.lines;
  lines.push_back(Fitted(chart.title, columns, utf8));
  const std::string legend = Legend(chart, pen, columns, utf8);
  if (rows >= kRowsWithLegend && !legend.empty()) lines.push_back(legend);
  const int plot_rows = rows - static_cast<int>(lines.size()) - 2;
  const std::vector<std::string> numbers = Numbers(y, plot_rows);
  size_t margin = 0;
  for (const std::string& text : numbers)
    margin = std::max(margin, text.size());
  // A number that would leave no room for the curves is cut.
  margin = std::min(margin, static_cast<size_t>(columns / 2));
  const int plot_columns = columns - static_cast<int>(margin) - 1;
  CellGrid grid(plot_columns, plot_rows, utf8);
  Plotter plotter(x, y, pen, grid, plot_columns, plot_rows);
  for (const Curve& curve : chart.curves) plotter.Draw(curve);
  for (int row = 0; row < plot_rows; ++row) {
    const std::string number = numbers[row].substr(0, margin);
    lines.push_back(
        absl::StrCat(std::string(margin - number.size(), ' '), number,
                     number.empty() ? pen.left : pen.left_tick, grid.Row(row)));
  }
  for (std::string& line : Bottom(x, pen, static_cast<int>(margin),
                                  plot_columns, chart.counts_x ? 1 : 0)) {
    lines.push_back(std::move(line));
  }
  return drawing;
}

}  // namespace mpsd::client
