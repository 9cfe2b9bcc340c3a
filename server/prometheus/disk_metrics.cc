// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/disk_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <utility>

#include "server/prometheus/names.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;

ClientMetric Gauge(int64_t value, std::vector<ClientMetric::Label> labels) {
  ClientMetric sample;
  sample.label = std::move(labels);
  sample.gauge.value = static_cast<double>(value);
  return sample;
}

MetricFamily FamilyOf(const Metric& metric, std::vector<ClientMetric> samples) {
  return {metric.name, metric.help, ::prometheus::MetricType::Gauge,
          std::move(samples)};
}

}  // namespace

void DiskMetrics::SetRoom(int64_t free_bytes, int64_t size_bytes,
                          absl::Duration valid) {
  absl::MutexLock lock(&mutex_);
  free_bytes_ = free_bytes;
  size_bytes_ = size_bytes;
  room_until_ = clock_.Monotonic() + valid;
}

void DiskMetrics::SetBytes(std::map<std::string, int64_t> bytes_by_kind,
                           absl::Duration valid) {
  absl::MutexLock lock(&mutex_);
  bytes_by_kind_ = std::move(bytes_by_kind);
  bytes_until_ = clock_.Monotonic() + valid;
}

std::vector<MetricFamily> DiskMetrics::Collect() const {
  std::vector<MetricFamily> families;
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = clock_.Monotonic();
  if (now < room_until_) {
    families.push_back(FamilyOf(kStateDiskFree, {Gauge(free_bytes_, {})}));
    families.push_back(FamilyOf(kStateDiskSize, {Gauge(size_bytes_, {})}));
  }
  if (now < bytes_until_) {
    std::vector<ClientMetric> samples;
    samples.reserve(bytes_by_kind_.size());
    for (const auto& [kind, bytes] : bytes_by_kind_) {
      samples.push_back(Gauge(bytes, {{"kind", kind}}));
    }
    families.push_back(FamilyOf(kStateBytes, std::move(samples)));
  }
  return families;
}

}  // namespace mpsd::prometheus
