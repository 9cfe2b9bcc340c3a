// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_FAMILIES_H_
#define MPSD_SERVER_PROMETHEUS_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include "absl/time/time.h"
#include "server/prometheus/names.h"

// The family of a metric in `registry`, made on the first call. `metric` has
// the kind of the function's name.
namespace mpsd::prometheus {

::prometheus::Family<::prometheus::Gauge>& Gauges(
    ::prometheus::Registry& registry, const Metric& metric);
::prometheus::Family<::prometheus::Counter>& Counters(
    ::prometheus::Registry& registry, const Metric& metric);
::prometheus::Family<::prometheus::Histogram>& Histograms(
    ::prometheus::Registry& registry, const Metric& metric);

// A family whose only series has no labels. `metric` is a gauge or a counter.
::prometheus::MetricFamily SingleValue(const Metric& metric, double value);

// The value of a gauge …_timestamp_seconds: seconds since 1970, with fractions.
double UnixSeconds(absl::Time time);

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_FAMILIES_H_
