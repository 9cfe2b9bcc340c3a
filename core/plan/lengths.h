// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_LENGTHS_H_
#define MPSD_CORE_PLAN_LENGTHS_H_

#include <cstdint>
#include <vector>

#include "core/data/source.h"

namespace mpsd::plan {

// The most bins of a histogram.
inline constexpr int64_t kMostBins = 64;

// Rows of `from` to `to` tokens, both inclusive.
struct LengthBin {
  int64_t from = 0, to = 0, rows = 0;
  bool operator==(const LengthBin&) const = default;
};

struct LengthSummary {
  int64_t shortest = 0, median = 0, p95 = 0, longest = 0;
  double mean = 0;
  // In ascending order, without gaps between the shortest and the longest row:
  // a bin per length up to 16 lengths, then bins whose width grows with the
  // length (16 per doubling, wider if there would be more than kMostBins).
  std::vector<LengthBin> bins;
};

// All zero for a source without rows.
LengthSummary Summarize(const data::Source& rows);

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_LENGTHS_H_
