// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_FINDING_H_
#define MPSD_CORE_REPORT_FINDING_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mpsd::runbook {

// The severity of a finding, as in proto/mpsd/v1/finding.proto.
enum class Verdict { kNotTold = 0, kPass = 1, kWarn = 2, kFail = 3 };

// "VERDICT_PASS" …, as in the API's JSON.
const char* NameOf(Verdict verdict);

// The result of one check; see Finding in proto/mpsd/v1/finding.proto.
struct Finding {
  std::string name;
  Verdict verdict = Verdict::kNotTold;
  std::string found;
  std::string advice = {};
  std::optional<double> value = {};
  std::optional<double> threshold = {};
  std::string unit = {};
};

// The message's JSON, with the .proto's field names.
nlohmann::json ToJson(const Finding& finding);

// kNotTold if all findings are.
Verdict Worst(const std::vector<Finding>& findings);

// The most severe first; otherwise the order is kept.
void SortBySeverity(std::vector<Finding>& findings);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_REPORT_FINDING_H_
