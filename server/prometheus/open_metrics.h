// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_OPEN_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_OPEN_METRICS_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/prometheus/exemplars.h"

namespace mpsd::prometheus {

// The families, gauges, counters and histograms, in the text format of
// OpenMetrics 1.0.0, with an exemplar at each bucket that has one. An exemplar
// whose labels are longer than the format allows is left out.
std::string OpenMetricsText(
    const std::vector<::prometheus::MetricFamily>& families,
    const Exemplars& exemplars);

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_OPEN_METRICS_H_
