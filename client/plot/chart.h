// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLOT_CHART_H_
#define MPSD_CLIENT_PLOT_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/plot/axis.h"

namespace mpsd::client {

// How a curve looks, so that curves are told apart without colours.
enum class CurveStyle {
  kDots,   // a thin line of Braille dots (or '.')
  kHeavy,  // a line of whole characters: "━" (or '*')
  kMarks,  // a "◆" (or 'o') for each point
};

struct CurvePoint {
  double x = 0;
  double y = 0;
};

struct Curve {
  std::string name;  // for the legend; empty: the legend leaves it out
  CurveStyle style = CurveStyle::kDots;
  std::vector<CurvePoint> points;  // x rises
};

struct Chart {
  std::string title;
  std::vector<Curve> curves;        // a later one is drawn over an earlier one
  Spread spread = Spread::kLinear;  // of y
  bool counts_x = false;            // x has whole numbers alone: steps, tokens
};

// The smallest drawing.
inline constexpr int kFewestColumns = 20;
inline constexpr int kFewestRows = 5;

struct Drawing {
  std::vector<std::string> lines;
  // Points that the axes cannot hold (NaN, infinity; 0 and less where y is
  // logarithmic). A line is broken at them.
  int64_t left_out = 0;
};

// Draws `chart` in exactly `rows` lines of at most `columns` characters, and in
// ASCII alone unless `utf8`: title, legend (where there are 10 rows and two
// names), curves, axes. However many points there are, the least and the
// greatest value of each column are drawn. The sizes are at least the smallest.
Drawing Draw(const Chart& chart, int columns, int rows, bool utf8);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLOT_CHART_H_
