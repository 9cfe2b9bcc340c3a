// SPDX-License-Identifier: Apache-2.0
#include "core/report/predictions.h"

#include <algorithm>

namespace mpsd::metrics {

std::vector<int64_t> Predictions::Classes() const {
  std::vector<int64_t> classes(rows());
  for (int64_t row = 0; row < rows(); ++row) {
    const auto first = logits.begin() + row * outputs;
    classes[row] = std::max_element(first, first + outputs) - first;
  }
  return classes;
}

}  // namespace mpsd::metrics
