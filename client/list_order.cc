// SPDX-License-Identifier: Apache-2.0
#include "client/list_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/text/format.h"
#include "core/base/printable.h"
#include "core/metrics/metrics.h"

namespace mpsd::client {
namespace {

constexpr char kPrefix[] = "JOB_ORDER_";

using Value = std::optional<std::variant<int64_t, double, std::string>>;

// The names of run_glue.py's metrics (core/metrics).
constexpr const char* kMetrics[] = {
    "accuracy",  "f1",        "f1_macro", "f1_micro", "matthews_correlation",
    "pearson",   "spearmanr", "mse",      "mae",      "combined_score",
    "perplexity"};
constexpr char kMetricPrefix[] = "metrics.";

Value Finite(bool has, double value) {
  return has && std::isfinite(value) ? Value(value) : std::nullopt;
}

Value MetricOf(const v1::Job& job, const std::string& metric) {
  if (metric == kTrainLoss) {
    return Finite(job.has_train_loss(), job.train_loss());
  }
  const auto found = job.metrics().find(metric);
  return found == job.metrics().end() ? std::nullopt
                                      : Finite(true, found->second);
}

Value ValueOf(const v1::Job& job, const SortKey& key) {
  if (!key.metric.empty()) return MetricOf(job, key.metric);
  switch (key.order) {
    case v1::JOB_ORDER_END_TIME:
      if (!job.has_end_time()) return std::nullopt;
      return absl::ToUnixMicros(ToTime(job.end_time()));
    case v1::JOB_ORDER_NAME:
      return absl::AsciiStrToLower(job.name());
    case v1::JOB_ORDER_OWNER:
      return job.owner();
    case v1::JOB_ORDER_STATE:
      return int64_t{job.state()};
    case v1::JOB_ORDER_PRIORITY:
      return int64_t{job.priority()};
    case v1::JOB_ORDER_EVAL_LOSS:
      if (!job.has_eval_loss_after() || std::isnan(job.eval_loss_after())) {
        return std::nullopt;
      }
      return job.eval_loss_after();
    case v1::JOB_ORDER_DEVICE_SECONDS:
      return job.device_seconds();
    case v1::JOB_ORDER_STORED_BYTES:
      return int64_t{job.stored_bytes()};
    default:
      return absl::ToUnixMicros(ToTime(job.create_time()));
  }
}

// Negative where `a` comes first.
int Compare(const v1::Job& a, const v1::Job& b, const SortKey& key) {
  const Value left = ValueOf(a, key), right = ValueOf(b, key);
  if (left == right) return 0;
  if (!left.has_value() || !right.has_value()) return left ? -1 : 1;
  return (*left < *right) == key.ascending ? -1 : 1;
}

// The metric that a word of --sort means; "" for none.
std::string MetricNamed(absl::string_view word) {
  absl::ConsumePrefix(&word, "-");
  if (absl::ConsumePrefix(&word, kMetricPrefix)) return std::string(word);
  const bool known = word == kTrainLoss ||
                     std::count(std::begin(kMetrics), std::end(kMetrics), word);
  return known ? std::string(word) : "";
}

}  // namespace

std::vector<std::string> SortNames() {
  std::vector<std::string> names;
  for (int i = v1::JobOrder_MIN + 1; i <= v1::JobOrder_MAX; ++i) {
    const std::string name(v1::JobOrder_Name(static_cast<v1::JobOrder>(i)));
    names.push_back(absl::AsciiStrToLower(name.substr(sizeof(kPrefix) - 1)));
  }
  names.emplace_back(kTrainLoss);
  names.insert(names.end(), std::begin(kMetrics), std::end(kMetrics));
  return names;
}

absl::StatusOr<std::vector<SortKey>> ParseSort(const std::string& words) {
  std::vector<SortKey> keys;
  for (const auto& part : absl::StrSplit(words, ',')) {
    const std::string word(absl::StripAsciiWhitespace(part));
    SortKey key{v1::JOB_ORDER_UNSPECIFIED, word[0] != '-', MetricNamed(word)};
    const std::string name =
        absl::AsciiStrToUpper(key.ascending ? word : word.substr(1));
    if (!key.metric.empty()) {
      // The best come first.
      if (metrics::GreaterIsBetter(key.metric)) key.ascending = !key.ascending;
    } else if (!v1::JobOrder_Parse(kPrefix + name, &key.order) ||
               key.order == v1::JOB_ORDER_UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sort ", base::Quotable(word), ": jobs are sorted by ",
                       absl::StrJoin(SortNames(), ", "),
                       ", metrics.NAME; with - before it from the end"));
    }
    keys.push_back(key);
  }
  return keys;
}

bool AreEqual(const v1::Job& a, const v1::Job& b, const SortKey& key) {
  return Compare(a, b, key) == 0;
}

bool ComesBefore(const v1::Job& a, const v1::Job& b,
                 absl::Span<const SortKey> keys) {
  if (keys.empty()) return Compare(a, b, SortKey()) < 0;
  for (const SortKey& key : keys) {
    const int order = Compare(a, b, key);
    if (order != 0) return order < 0;
  }
  return false;
}

void SortBy(absl::Span<const SortKey> keys, std::vector<v1::Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [keys](const v1::Job& a, const v1::Job& b) {
                     return ComesBefore(a, b, keys);
                   });
}

}  // namespace mpsd::client
