// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/clean_report.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::supervisor {
namespace {

// `text`, printable and at most `max_bytes` long. Bytes far behind the bound
// are not even looked at.
std::string Bounded(std::string_view text, size_t max_bytes,
                    base::Breaks breaks = base::Breaks::kEscape) {
  return base::Shortened(
      base::Printable(base::Shortened(text, max_bytes + 8), breaks), max_bytes);
}

// The matrix with printable labels; empty where it is left out.
std::string CleanMatrix(const std::string& text) {
  if (text.size() > limits::kMatrixBytes) return "";
  auto matrix = base::ParseTree<nlohmann::ordered_json>(text);
  if (!matrix.is_object() || !matrix.contains("labels")) return "";
  auto& labels = matrix["labels"];
  if (!labels.is_array()) return "";
  for (auto& label : labels) {
    if (!label.is_string()) return "";
    label = base::Printable(label.get<std::string>());
  }
  return matrix.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

// Visits a report's fields and cleans those that hold text.
class Cleaner {
 public:
  void operator()(std::string_view name, std::string& value) const {
    if (name == "path" || name == "output_path") return;
    if (name == "message") {
      value = CleanText(value);
    } else if (name == "confusion_matrix") {
      value = CleanMatrix(value);
    } else {
      value = CleanVersion(value);
    }
  }
  void operator()(std::string_view, report::Metrics& value) const {
    if (value.size() > limits::kMetrics) value.resize(limits::kMetrics);
    for (auto& [metric, number] : value) {
      metric = Bounded(metric, limits::kMetricNameBytes);
    }
  }
  void operator()(std::string_view, report::Counts& value) const {
    report::Counts clean;
    for (const auto& [counted, count] : value) {
      if (clean.size() == limits::kFallbackOps) break;
      clean[Bounded(counted, limits::kMetricNameBytes)] = count;
    }
    value = std::move(clean);
  }
  // A list of paths.
  void operator()(std::string_view, std::vector<std::string>& value) const {
    if (value.size() > limits::kRemovedPaths) {
      value.resize(limits::kRemovedPaths);
    }
  }
  // A field without text; a member of another type does not compile here.
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(std::string_view, T&) const {}
  template <typename T>
  requires std::is_arithmetic_v<T>
  void operator()(std::string_view, std::optional<T>&) const {}
  void operator()(std::string_view, report::MemoryCounters&) const {}
};

template <typename Report>
void CleanFields(Report& report) {
  const Cleaner cleaner;
  Fields(cleaner, report, &report);
}

}  // namespace

void Clean(report::Progress& progress) { CleanFields(progress); }
void Clean(report::Evaluated& evaluated) { CleanFields(evaluated); }
void Clean(report::Checkpointed& checkpointed) { CleanFields(checkpointed); }
void Clean(report::Failure& failure) { CleanFields(failure); }

bool Clean(report::Outcome& outcome) {
  const bool had_matrix = !outcome.confusion_matrix.empty();
  CleanFields(outcome);
  return !had_matrix || !outcome.confusion_matrix.empty();
}

std::string CleanText(std::string_view text) {
  return Bounded(text, limits::kMessageBytes, base::Breaks::kKeep);
}

std::string CleanWarning(std::string_view text) {
  return Bounded(text, limits::kWarningBytes);
}

std::string CleanStage(std::string_view text) {
  return Bounded(text, limits::kStageBytes);
}

std::string CleanVersion(std::string_view text) {
  return Bounded(text, limits::kVersionBytes);
}

}  // namespace mpsd::supervisor
