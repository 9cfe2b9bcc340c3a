// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_TEXTS_H_
#define MPSD_SERVER_PLANNER_TEXTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "core/report/runbook.h"

// Texts of findings.

// Shorthands for gates: a finding of each verdict.

namespace mpsd::doctor {

// A text of another program or of a file: one line without terminal control
// characters, of at most 256 bytes.
std::string Foreign(std::string_view text);

std::string BytesText(double bytes);      // "12.3 GB"; powers of 1,000
std::string AgeText(absl::Duration age);  // "42 s", "3 h", "12 days"
std::string PercentText(double ratio);    // "62 %"

inline runbook::Finding NotTold(std::string name,
                                std::string found = "unknown") {
  return {std::move(name), runbook::Verdict::kNotTold, std::move(found)};
}
inline runbook::Finding Pass(std::string name, std::string found) {
  return {std::move(name), runbook::Verdict::kPass, std::move(found)};
}
inline runbook::Finding Warn(std::string name, std::string found,
                             std::string advice) {
  return {std::move(name), runbook::Verdict::kWarn, std::move(found),
          std::move(advice)};
}
inline runbook::Finding Fail(std::string name, std::string found,
                             std::string advice) {
  return {std::move(name), runbook::Verdict::kFail, std::move(found),
          std::move(advice)};
}

// `finding` with the figure that was compared.
inline runbook::Finding With(runbook::Finding finding, double value,
                             double threshold, const char* unit) {
  finding.value = value;
  finding.threshold = threshold;
  finding.unit = unit;
  return finding;
}

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_PLANNER_TEXTS_H_
