// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_METRIC_REFERENCE_H_
#define MPSD_SERVER_PROMETHEUS_METRIC_REFERENCE_H_

#include <string>
#include <vector>

#include "server/prometheus/names.h"

namespace mpsd::prometheus {

// Every metric of names.h, by name.
std::vector<Metric> AllMetrics();

// The table of all metrics in Markdown, a row each: name, kind, labels and
// meaning. deploy/README.md contains the table, and a test compares the two.
std::string MetricReference();

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_METRIC_REFERENCE_H_
