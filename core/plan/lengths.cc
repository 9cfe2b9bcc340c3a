// SPDX-License-Identifier: Apache-2.0
#include "core/plan/lengths.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mpsd::plan {
namespace {

// The first lengths of the bins, followed by the end of the last:
// `per_doubling` bins from each power of two to the next.
std::vector<int64_t> Edges(int64_t shortest, int64_t longest,
                           int64_t per_doubling) {
  std::vector<int64_t> edges = {shortest};
  while (edges.back() <= longest) {
    int64_t power = 1;
    while (power * 2 <= edges.back()) power *= 2;
    const int64_t width = std::max<int64_t>(power / per_doubling, 1);
    // On multiples of the width, so that edges are round numbers.
    edges.push_back((edges.back() / width + 1) * width);
  }
  edges.back() = longest + 1;
  return edges;
}

}  // namespace

LengthSummary Summarize(const data::Source& rows) {
  LengthSummary summary;
  const int64_t count = rows.size();
  if (count == 0) return summary;
  std::map<int64_t, int64_t> counts;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    ++counts[rows.length(i)];
    sum += static_cast<double>(rows.length(i));
  }
  summary.mean = sum / static_cast<double>(count);
  summary.shortest = counts.begin()->first;
  summary.longest = counts.rbegin()->first;
  int64_t before = 0;
  for (const auto& [length, here] : counts) {
    // The smallest length that half (95 %) of the rows do not exceed.
    if (before < (count + 1) / 2) summary.median = length;
    if (before < (count * 19 + 19) / 20) summary.p95 = length;
    before += here;
  }
  std::vector<int64_t> edges;
  for (int64_t per_doubling = 16; edges.empty() || per_doubling > 0;
       per_doubling /= 2) {
    edges = Edges(summary.shortest, summary.longest, per_doubling);
    if (std::ssize(edges) - 1 <= kMostBins) break;
  }
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    LengthBin bin{edges[i], edges[i + 1] - 1, 0};
    for (auto it = counts.lower_bound(bin.from);
         it != counts.end() && it->first <= bin.to; ++it) {
      bin.rows += it->second;
    }
    summary.bins.push_back(bin);
  }
  return summary;
}

}  // namespace mpsd::plan
