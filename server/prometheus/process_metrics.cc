// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/process_metrics.h"

#include <optional>

#include "server/prometheus/families.h"
#include "server/prometheus/names.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::MetricFamily;
void AddFamily(const Metric& metric, std::optional<double> value,
               std::vector<MetricFamily>& families) {
  if (value) families.push_back(SingleValue(metric, *value));
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
