// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/open_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"

namespace mpsd::prometheus {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;
using ::prometheus::MetricType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Characters of an exemplar's labels, names and values together.
constexpr size_t kExemplarCharacters = 128;
constexpr std::string_view kExemplarLabel = "job_id";

template <typename... Format>
std::string Digits(double value, Format... format) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[400];
  return {text, std::to_chars(text, text + sizeof text, value, format...).ptr};
}

// The value of "le" as section "Canonical Numbers" of the specification spells
// it: 0.01, 1.0, 100000.0, 1e+06.
std::string Bound(double value) {
  const bool plain =
      value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e6);
  std::string text = Digits(
      value, plain ? std::chars_format::fixed : std::chars_format::scientific);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}});
}

// "{device=\"mps\",le=\"0.5\"}"; "" without labels.
std::string LabelsText(std::vector<ClientMetric::Label> labels,
                       const std::string& bound = "") {
  if (!bound.empty()) labels.push_back({"le", bound});
  if (labels.empty()) return "";
  return absl::StrCat(
      "{",
      absl::StrJoin(labels, ",",
                    [](std::string* out, const ClientMetric::Label& label) {
                      absl::StrAppend(out, label.name, "=\"",
                                      Escaped(label.value), "\"");
                    }),
      "}");
}

std::string ExemplarText(const Exemplar& exemplar) {
  // Job ids are ASCII, where characters are bytes.
  if (kExemplarLabel.size() + exemplar.job_id.size() > kExemplarCharacters) {
    return "";
  }
  return absl::StrCat(
      " # ", LabelsText({{std::string(kExemplarLabel), exemplar.job_id}}), " ",
      Digits(exemplar.value), " ",
      Digits(static_cast<double>(absl::ToUnixMillis(exemplar.time)) / 1e3,
             std::chars_format::fixed));
}

void AddHistogram(const std::string& name, const ClientMetric& series,
                  const Exemplars& exemplars, std::string& text) {
  const auto& histogram = series.histogram;
  for (const ClientMetric::Bucket& bucket : histogram.bucket) {
    absl::StrAppend(&text, name, "_bucket",
                    LabelsText(series.label, Bound(bucket.upper_bound)), " ",
                    bucket.cumulative_count);
    if (const auto exemplar =
            exemplars.Find(name, series.label, bucket.upper_bound)) {
      absl::StrAppend(&text, ExemplarText(*exemplar));
    }
    text += "\n";
  }
  // prometheus-cpp leaves the infinite bucket to the serializer.
  if (histogram.bucket.empty() ||
      histogram.bucket.back().upper_bound != kInfinity) {
    absl::StrAppend(&text, name, "_bucket",
                    LabelsText(series.label, Bound(kInfinity)), " ",
                    histogram.sample_count, "\n");
  }
  const std::string labels = LabelsText(series.label);
  absl::StrAppend(&text, name, "_count", labels, " ", histogram.sample_count,
                  "\n", name, "_sum", labels, " ", Digits(histogram.sample_sum),
                  "\n");
}

void AddFamily(const MetricFamily& family, const Exemplars& exemplars,
               std::string& text) {
  const bool counts = family.type == MetricType::Counter;
  const bool buckets = family.type == MetricType::Histogram;
  base::Check(counts || buckets || family.type == MetricType::Gauge,
              "a metric is a gauge, a counter or a histogram");
  // A counter's samples have the suffix, its family has not.
  const std::string name =
      counts ? std::string(absl::StripSuffix(family.name, "_total"))
             : family.name;
  const char* kind = counts ? "counter" : buckets ? "histogram" : "gauge";
  absl::StrAppend(&text, "# HELP ", name, " ", Escaped(family.help),
                  "\n# TYPE ", name, " ", kind, "\n");
  for (const ClientMetric& series : family.metric) {
    if (buckets) {
      AddHistogram(name, series, exemplars, text);
    } else {
      absl::StrAppend(
          &text, name, counts ? "_total" : "", LabelsText(series.label), " ",
          Digits(counts ? series.counter.value : series.gauge.value), "\n");
    }
  }
}

}  // namespace

std::string OpenMetricsText(const std::vector<MetricFamily>& families,
                            const Exemplars& exemplars) {
  std::string text;
  for (const MetricFamily& family : families) {
    AddFamily(family, exemplars, text);
  }
  return text + "# EOF\n";
}

}  // namespace mpsd::prometheus
