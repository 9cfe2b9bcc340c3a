// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/halving.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mpsd::sweeps {

std::vector<int64_t> RungsFor(int64_t children, int64_t eta,
                              int64_t total_steps) {
  std::vector<int64_t> rungs;
  if (eta < kLeastEta) return rungs;
  // How often eta divides both: to one child, and to one step.
  int64_t scale = 1;
  size_t count = 0;
  while (count < kMostRungs && children / scale >= eta &&
         total_steps / scale >= eta) {
    scale *= eta;
    ++count;
  }
  int64_t step = total_steps / scale;
  for (size_t i = 0; i < count; ++i, step *= eta) rungs.push_back(step);
  return rungs;
}

std::vector<size_t> Ranked(absl::Span<const std::optional<double>> metrics,
                           bool greater_is_better) {
  std::vector<size_t> places(metrics.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto counts = [&](size_t i) {
    return metrics[i].has_value() && std::isfinite(*metrics[i]);
  };
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    if (!counts(a) || !counts(b)) return counts(a) && !counts(b);
    return greater_is_better ? *metrics[a] > *metrics[b]
                             : *metrics[a] < *metrics[b];
  });
  return places;
}

int64_t GoOn(int64_t children, int64_t eta) {
  return std::max<int64_t>(1, children / std::max(eta, kLeastEta));
}

}  // namespace mpsd::sweeps
