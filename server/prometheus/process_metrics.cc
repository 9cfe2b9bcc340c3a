// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/process_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <optional>
#include <utility>

#include "server/prometheus/names.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::MetricFamily;
using ::prometheus::MetricType;

void AddFamily(const Metric& metric, std::optional<double> value,
               std::vector<MetricFamily>& families) {
  if (!value) return;
  const bool counts = metric.kind == MetricKind::kCounter;
  ::prometheus::ClientMetric sample;
  (counts ? sample.counter.value : sample.gauge.value) = *value;
  families.push_back({metric.name,
                      metric.help,
                      counts ? MetricType::Counter : MetricType::Gauge,
                      {std::move(sample)}});
}

std::optional<double> Number(const std::optional<int64_t>& value) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

}  // namespace

std::vector<MetricFamily> ProcessFamilies(const host::ProcessUsage& usage) {
  std::vector<MetricFamily> families;
  AddFamily(kProcessCpu, usage.cpu_seconds, families);
  AddFamily(kProcessResident, Number(usage.resident_bytes), families);
  AddFamily(kProcessDescriptors, Number(usage.open_descriptors), families);
  AddFamily(kProcessMostDescriptors, Number(usage.most_descriptors), families);
  AddFamily(kProcessStart, usage.start_time_seconds, families);
  return families;
}

}  // namespace mpsd::prometheus
