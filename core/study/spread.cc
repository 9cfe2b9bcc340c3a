// SPDX-License-Identifier: Apache-2.0
#include "core/study/spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mpsd::study {
namespace {

// The value below which `part` of the sorted values lie.
double Quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double rest = place - static_cast<double>(below);
  return sorted[below] + rest * (sorted[above] - sorted[below]);
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.5), Quantile(values, 0.1), Quantile(values, 0.9),
          values.front(), values.back()};
}

nlohmann::json ToJson(const Spread& spread) {
  return {{"median", spread.median},
          {"p10", spread.p10},
          {"p90", spread.p90},
          {"min", spread.min},
          {"max", spread.max}};
}

double GrowthOf(const std::vector<double>& values) {
  if (values.size() < 2 || values.front() <= 0) return 0;
  return values.back() / values.front() - 1;
}

double SlopeOf(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double middle = (count - 1) / 2;
  double mean = 0;
  for (const double value : values) mean += value / count;
  double both = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double from_middle = static_cast<double>(i) - middle;
    both += from_middle * (values[i] - mean);
    squares += from_middle * from_middle;
  }
  return both / squares;
}

}  // namespace mpsd::study
