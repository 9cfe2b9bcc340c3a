// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "core/host/machine.h"
#include "server/http/names.h"

namespace mpsd::prometheus {

// The family of a metric in `registry`, made on the first call. `metric` has
// the kind of the function's name.
::prometheus::Family<::prometheus::Gauge>& Gauges(
    ::prometheus::Registry& registry, const Metric& metric);
::prometheus::Family<::prometheus::Counter>& Counters(
    ::prometheus::Registry& registry, const Metric& metric);
::prometheus::Family<::prometheus::Histogram>& Histograms(
    ::prometheus::Registry& registry, const Metric& metric);

// Adds to a counter, sets a gauge.
void Count(::prometheus::Registry& registry, Named metric,
           const ::prometheus::Labels& labels = {}, double more = 1);
void SetGauge(::prometheus::Registry& registry, Named metric,
              const ::prometheus::Labels& labels, double value);

// A family whose only series has no labels. `metric` is a gauge or a counter.
::prometheus::MetricFamily SingleValue(const Metric& metric, double value);

// The value of a gauge …_timestamp_seconds: seconds since 1970, with fractions.
double UnixSeconds(absl::Time time);

// The longest value of a label that comes from a client.
inline constexpr size_t kLabelBytes = 128;

// The name of an enum's value as a label: "OutOfMemory" and "out_of_memory" are
// "out_of_memory", "QUEUED" is "queued".
std::string SnakeCase(std::string_view name);

// A client's text as a label: UTF-8 without control characters, at most
// kLabelBytes.
std::string BoundedLabel(std::string_view text);

// Bounds the number of a label's values: the first `most` values seen keep
// their names for good, every later one is "other". Not thread-safe.
class LabelCap {
 public:
  static constexpr const char* kOther = "other";

  explicit LabelCap(size_t most) : most_(most) {}
  std::string Of(const std::string& value);

 private:
  const size_t most_;
  std::set<std::string> known_;
};

// The process_* metrics of `usage`; an absent value has no family.
std::vector<::prometheus::MetricFamily> ProcessFamilies(
    const host::ProcessUsage& usage);

}  // namespace mpsd::prometheus
