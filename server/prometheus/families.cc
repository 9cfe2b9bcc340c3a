// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/families.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <utility>

#include "core/base/check.h"

namespace mpsd::prometheus {

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

}  // namespace mpsd::prometheus
