// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_FINDING_OF_H_
#define MPSD_SERVER_DOCTOR_FINDING_OF_H_

#include <string>
#include <utility>

#include "core/runbook/finding.h"

// Shorthands for gates: a finding of each verdict.
namespace mpsd::doctor {

inline runbook::Finding NotTold(std::string name,
                                std::string found = "not told") {
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

#endif  // MPSD_SERVER_DOCTOR_FINDING_OF_H_
