// SPDX-License-Identifier: Apache-2.0
#include "core/report/thresholds.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/report/option_values.h"

namespace mpsd::runbook {
namespace {

const Threshold* Find(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kThresholds), std::end(kThresholds),
                   [&](const Threshold& t) { return t.name == name; });
  return found == std::end(kThresholds) ? nullptr : found;
}

absl::Status Unknown(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat(
      "thresholds: there is no '", base::Quotable(name), "'; there are ",
      absl::StrJoin(kThresholds, ", ",
                    [](std::string* out, const Threshold& t) {
                      absl::StrAppend(out, t.name);
                    })));
}

// A threshold's bounds, human-readable.
std::string Allowed(const Threshold& threshold) {
  const char* const number = threshold.whole ? "whole number" : "finite number";
  if (threshold.most == Threshold().most) {
    return absl::StrCat("a ", number, " of ", threshold.least, " or more");
  }
  return absl::StrCat("a ", number, " from ", threshold.least, " to ",
                      threshold.most);
}

bool IsAllowed(const Threshold& threshold, double value) {
  // False for NaN.
  return value >= threshold.least && value <= threshold.most &&
         (!threshold.whole || value == std::floor(value));
}

}  // namespace

absl::StatusOr<Thresholds> Thresholds::FromMap(
    const std::map<std::string, double>& values) {
  if (values.size() > limits::kThresholds) {
    return absl::InvalidArgumentError(
        absl::StrCat("thresholds: has ", values.size(), " entries, at most ",
                     limits::kThresholds, " are allowed"));
  }
  Thresholds thresholds;
  for (const auto& [name, value] : values) {
    const Threshold* threshold = Find(name);
    if (threshold == nullptr) return Unknown(name);
    if (!IsAllowed(*threshold, value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("thresholds: ", name, ": must be ", Allowed(*threshold),
                       ", is ", value));
    }
    thresholds.set_[name] = value;
  }
  return thresholds;
}

absl::StatusOr<Thresholds> Thresholds::FromJson(const nlohmann::json& values) {
  if (!values.is_object()) {
    return absl::InvalidArgumentError("thresholds: must be a JSON object");
  }
  std::map<std::string, double> map;
  for (const auto& [name, value] : values.items()) {
    if (!value.is_number()) {
      return NotAllowed(absl::StrCat("thresholds: ", base::Quotable(name)),
                        "a number", value);
    }
    map[name] = value.get<double>();
  }
  return FromMap(map);
}

double Thresholds::Get(std::string_view name) const {
  if (const auto set = set_.find(name); set != set_.end()) return set->second;
  const Threshold* threshold = Find(name);
  base::Check(threshold != nullptr, "the table has the threshold");
  return threshold->value;
}

}  // namespace mpsd::runbook
