// SPDX-License-Identifier: Apache-2.0
#include "core/study/longest_samples.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/data/order.h"

namespace mpsd::study {

std::vector<int64_t> LongestSamples(const data::Source& source, int64_t count) {
  std::vector<int64_t> order = data::PlainOrder(source.size());
  base::Check(!order.empty(), "a data set has samples");
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return source.length(a) > source.length(b);
  });
  std::vector<int64_t> longest;
  for (int64_t i = 0; i < count; ++i) {
    longest.push_back(order[static_cast<size_t>(i) % order.size()]);
  }
  return longest;
}

}  // namespace mpsd::study
