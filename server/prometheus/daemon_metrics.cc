// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/daemon_metrics.h"

#include <utility>

#include "server/prometheus/families.h"
#include "server/prometheus/label_values.h"

namespace mpsd::prometheus {
namespace {

// From a commit that flushes nothing to a disk that hardly answers.
const ::prometheus::Histogram::BucketBoundaries kCommitBuckets = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05,   0.1,     0.25,   0.5,   1,      2.5,   10,   30};

}  // namespace

DaemonMetrics::DaemonMetrics(const base::Clock& clock)
    : rpc_(registry_),
      disk_(clock),
      commit_(Histograms(registry_, kDatabaseCommit).Add({}, kCommitBuckets)),
      selftest_(Gauges(registry_, kSelftestPassed)) {}

void DaemonMetrics::Committed(absl::Duration duration) {
  commit_.Observe(absl::ToDoubleSeconds(duration));
}

void DaemonMetrics::SelftestPassed(const std::string& device, absl::Time time) {
  selftest_.Add({{"device", BoundedLabel(device)}}).Set(UnixSeconds(time));
}

std::vector<::prometheus::MetricFamily> DaemonMetrics::Collect() const {
  std::vector<::prometheus::MetricFamily> families = registry_.Collect();
  for (::prometheus::MetricFamily& family : disk_.Collect()) {
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace mpsd::prometheus
