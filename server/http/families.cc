// SPDX-License-Identifier: Apache-2.0
#include "server/http/families.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/text.h"

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

::prometheus::Family<::prometheus::Gauge>& Gauges(
    ::prometheus::Registry& registry, const Metric& metric) {
  base::Check(metric.kind == MetricKind::kGauge, "a gauge is made");
  return ::prometheus::BuildGauge()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry);
}

::prometheus::Family<::prometheus::Counter>& Counters(
    ::prometheus::Registry& registry, const Metric& metric) {
  base::Check(metric.kind == MetricKind::kCounter, "a counter is made");
  return ::prometheus::BuildCounter()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry);
}

::prometheus::Family<::prometheus::Histogram>& Histograms(
    ::prometheus::Registry& registry, const Metric& metric) {
  base::Check(metric.kind == MetricKind::kHistogram, "a histogram is made");
  return ::prometheus::BuildHistogram()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry);
}

void Count(::prometheus::Registry& registry, Named metric,
           const ::prometheus::Labels& labels, double more) {
  Counters(registry, metric).Add(labels).Increment(more);
}

void SetGauge(::prometheus::Registry& registry, Named metric,
              const ::prometheus::Labels& labels, double value) {
  Gauges(registry, metric).Add(labels).Set(value);
}

::prometheus::MetricFamily SingleValue(const Metric& metric, double value) {
  base::Check(metric.kind != MetricKind::kHistogram, "one value is shown");
  const bool counts = metric.kind == MetricKind::kCounter;
  ::prometheus::ClientMetric sample;
  (counts ? sample.counter.value : sample.gauge.value) = value;
  return {metric.name,
          metric.help,
          counts ? ::prometheus::MetricType::Counter
                 : ::prometheus::MetricType::Gauge,
          {std::move(sample)}};
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

std::string SnakeCase(std::string_view name) {
  std::string text;
  char before = '_';
  for (char c : name) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (is_capital && before >= 'a' && before <= 'z') text += '_';
    text += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
    before = c;
  }
  return text;
}

std::string BoundedLabel(std::string_view text) {
  return base::Shortened(base::Printable(text), kLabelBytes);
}

std::string LabelCap::Of(const std::string& value) {
  if (known_.contains(value)) return value;
  if (known_.size() >= most_) return kOther;
  known_.insert(value);
  return value;
}

std::vector<MetricFamily> ProcessFamilies(const host::ProcessUsage& usage) {
  std::vector<MetricFamily> families;
  AddFamily(Named("process_cpu_seconds_total"), usage.cpu_seconds, families);
  AddFamily(Named("process_resident_memory_bytes"),
            Number(usage.resident_bytes), families);
  AddFamily(Named("process_open_fds"), Number(usage.open_descriptors),
            families);
  AddFamily(Named("process_max_fds"), Number(usage.most_descriptors), families);
  AddFamily(Named("process_start_time_seconds"), usage.start_time_seconds,
            families);
  return families;
}

}  // namespace mpsd::prometheus
