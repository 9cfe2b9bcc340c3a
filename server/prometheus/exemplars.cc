// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exemplars.h"

#include <algorithm>
#include <limits>

namespace mpsd::prometheus {

void Exemplars::Observe(const std::string& histogram, const Labels& labels,
                        const ::prometheus::Histogram::BucketBoundaries& bounds,
                        const Exemplar& exemplar) {
  const auto bound =
      std::lower_bound(bounds.begin(), bounds.end(), exemplar.value);
  const double upper_bound =
      bound == bounds.end() ? std::numeric_limits<double>::infinity() : *bound;
  absl::MutexLock lock(&mutex_);
  exemplars_[{histogram, labels, upper_bound}] = exemplar;
}

std::optional<Exemplar> Exemplars::Find(
    const std::string& histogram,
    const std::vector<::prometheus::ClientMetric::Label>& labels,
    double upper_bound) const {
  Bucket bucket{histogram, {}, upper_bound};
  for (const auto& label : labels) bucket.labels[label.name] = label.value;
  absl::MutexLock lock(&mutex_);
  const auto found = exemplars_.find(bucket);
  if (found == exemplars_.end()) return std::nullopt;
  return found->second;
}

void Exemplars::Forget(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(exemplars_, [&](const auto& entry) {
    return entry.second.job_id == job_id;
  });
}

}  // namespace mpsd::prometheus
