// SPDX-License-Identifier: Apache-2.0
#include "core/study/memory_curve.h"

#include <cstddef>

namespace mpsd::study {

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
