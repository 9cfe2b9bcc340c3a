// SPDX-License-Identifier: Apache-2.0
#include "core/report/kept_points.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/base/check.h"

namespace mpsd::run_page {
namespace {

// Each point's distance from the first along the run, which is longer than its
// steps if it repeated some.
std::vector<double> Distances(const std::vector<CurvesPoint>& points) {
  std::vector<double> distances(points.size(), 0);
  for (size_t i = 1; i < points.size(); ++i) {
    const double passed = static_cast<double>(points[i].step) -
                          static_cast<double>(points[i - 1].step);
    distances[i] = distances[i - 1] + std::max(1.0, passed);
  }
  return distances;
}

// Both sides of the latest `most` places where the run went back.
std::set<size_t> Returns(const std::vector<CurvesPoint>& points, size_t most) {
  std::set<size_t> sides;
  size_t found = 0;
  for (size_t i = points.size(); i-- > 1 && found < most;) {
    if (points[i].step > points[i - 1].step) continue;
    sides.insert({i - 1, i});
    ++found;
  }
  return sides;
}

// Adds the points that represent [begin, end).
void KeepOfStretch(const std::vector<CurvesPoint>& points, size_t begin,
                   size_t end, std::set<size_t>& kept) {
  kept.insert({begin, end - 1});
  bool nonfinite_kept = false;  // a non-finite value was seen
  for (size_t curve = 0; curve < points[begin].values.size(); ++curve) {
    const auto value = [&](size_t i) { return points[i].values[curve]; };
    size_t least = end, greatest = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(value(i))) {
        if (!nonfinite_kept) kept.insert(i);
        nonfinite_kept = true;
        continue;
      }
      if (least == end || value(i) < value(least)) least = i;
      if (greatest == end || value(i) > value(greatest)) greatest = i;
    }
    if (least != end) kept.insert({least, greatest});
  }
}

}  // namespace

std::vector<size_t> KeptPoints(const std::vector<CurvesPoint>& points,
                               size_t most) {
  base::Check(most >= 64, "there is room for a stretch");
  if (points.size() <= most) {
    std::vector<size_t> all(points.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  std::set<size_t> kept = Returns(points, most / 8);
  // First, last, non-finite, and each curve's least and greatest.
  const size_t of_stretch = 3 + 2 * points[0].values.size();
  const size_t stretches =
      std::max<size_t>(1, (most - kept.size()) / of_stretch);
  const std::vector<double> distances = Distances(points);
  const double length = (distances.back() + 1) / static_cast<double>(stretches);
  for (size_t begin = 0, end; begin < points.size(); begin = end) {
    const double stretch = std::floor(distances[begin] / length);
    end = begin + 1;
    while (end < points.size() &&
           std::floor(distances[end] / length) == stretch) {
      ++end;
    }
    KeepOfStretch(points, begin, end, kept);
  }
  return {kept.begin(), kept.end()};
}

}  // namespace mpsd::run_page
