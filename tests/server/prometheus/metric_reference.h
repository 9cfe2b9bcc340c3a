// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_PROMETHEUS_METRIC_REFERENCE_H_
#define MPSD_TESTS_SERVER_PROMETHEUS_METRIC_REFERENCE_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/prometheus/names.h"

namespace mpsd::prometheus {
inline const char* KindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "unknown";
}

// "`device`, `job_id`"; "" for a metric without labels.
inline std::string LabelsText(const Metric& metric) {
  const std::vector<std::string> labels =
      absl::StrSplit(metric.labels, ", ", absl::SkipEmpty());
  return absl::StrJoin(labels, ", ", [](std::string* out, const auto& label) {
    absl::StrAppend(out, "`", label, "`");
  });
}

// Every metric of names.h, by name.
inline std::vector<Metric> AllMetrics() {
  std::vector<Metric> metrics;
  for (const Metric* metric : kMetrics) metrics.push_back(*metric);
  for (const FieldGauge& gauge : kMemoryGauges) metrics.push_back(gauge.metric);
  for (const FieldGauge& gauge : kStepGauges) metrics.push_back(gauge.metric);
  std::sort(metrics.begin(), metrics.end(),
            [](const Metric& a, const Metric& b) {
              return std::strcmp(a.name, b.name) < 0;
            });
  return metrics;
}

// The table of all metrics in Markdown, a row each, which deploy/README.md has.
inline std::string MetricReference() {
  std::string text =
      "| metric | kind | labels | meaning |\n|---|---|---|---|\n";
  for (const Metric& metric : AllMetrics()) {
    absl::StrAppend(&text, "| `", metric.name, "` | ", KindName(metric.kind),
                    " | ", LabelsText(metric), " | ", metric.help, " |\n");
  }
  return text;
}

}  // namespace mpsd::prometheus

#endif  // MPSD_TESTS_SERVER_PROMETHEUS_METRIC_REFERENCE_H_
