// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/metric_set.h"

#include <prometheus/metric_family.h>

#include <iterator>

namespace mpsd::prometheus {

std::vector<::prometheus::MetricFamily> MetricSet::Collect() const {
  std::vector<::prometheus::MetricFamily> all;
  for (const auto& source : sources_) {
    std::vector<::prometheus::MetricFamily> some = source->Collect();
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

}  // namespace mpsd::prometheus
