// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_METRIC_SET_H_
#define MPSD_SERVER_PROMETHEUS_METRIC_SET_H_

#include <prometheus/collectable.h>

#include <memory>
#include <utility>
#include <vector>

namespace mpsd::prometheus {

// Collects several sources of metrics as one. No two have a metric in common.
class MetricSet final : public ::prometheus::Collectable {
 public:
  using Sources = std::vector<std::shared_ptr<::prometheus::Collectable>>;

  explicit MetricSet(Sources sources) : sources_(std::move(sources)) {}

  std::vector<::prometheus::MetricFamily> Collect() const override;

 private:
  const Sources sources_;
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_METRIC_SET_H_
