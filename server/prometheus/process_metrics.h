// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_PROCESS_METRICS_H_
#define MPSD_SERVER_PROMETHEUS_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "core/host/platform.h"

namespace mpsd::prometheus {

// The process_* metrics of `usage`; a value that is absent has no family.
std::vector<::prometheus::MetricFamily> ProcessFamilies(
    const host::ProcessUsage& usage);

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_PROCESS_METRICS_H_
