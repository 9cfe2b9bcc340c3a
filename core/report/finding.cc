// SPDX-License-Identifier: Apache-2.0
#include "core/report/finding.h"

#include <algorithm>

namespace mpsd::runbook {

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNotTold:
      break;
    case Verdict::kPass:
      return "VERDICT_PASS";
    case Verdict::kWarn:
      return "VERDICT_WARN";
    case Verdict::kFail:
      return "VERDICT_FAIL";
  }
  return "VERDICT_UNSPECIFIED";
}

nlohmann::json ToJson(const Finding& finding) {
  nlohmann::json json = {{"name", finding.name},
                         {"verdict", NameOf(finding.verdict)},
                         {"found", finding.found}};
  if (!finding.advice.empty()) json["advice"] = finding.advice;
  if (finding.value) json["value"] = *finding.value;
  if (finding.threshold) json["threshold"] = *finding.threshold;
  if (!finding.unit.empty()) json["unit"] = finding.unit;
  return json;
}

Verdict Worst(const std::vector<Finding>& findings) {
  Verdict worst = Verdict::kNotTold;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.verdict);
  }
  return worst;
}

void SortBySeverity(std::vector<Finding>& findings) {
  std::stable_sort(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return a.verdict > b.verdict; });
}

}  // namespace mpsd::runbook
