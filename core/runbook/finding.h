// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_RUNBOOK_FINDING_H_
#define MPSD_CORE_RUNBOOK_FINDING_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mpsd::runbook {

// How severe a finding is, as in proto/mpsd/v1/finding.proto.
enum class Verdict { kNotTold = 0, kPass = 1, kWarn = 2, kFail = 3 };

// "VERDICT_PASS" …, as the API's JSON spells it.
const char* NameOf(Verdict verdict);

// One thing that was looked at; see Finding in proto/mpsd/v1/finding.proto.
struct Finding {
  std::string name;
  Verdict verdict = Verdict::kNotTold;
  std::string found;
  std::string advice = {};
  std::optional<double> value = {};
  std::optional<double> threshold = {};
  std::string unit = {};
};

// The message's JSON, fields spelt as the .proto spells them.
nlohmann::json ToJson(const Finding& finding);

// kNotTold where nothing was told at all.
Verdict Worst(const std::vector<Finding>& findings);

// The most severe first; otherwise in the order they have.
void SortBySeverity(std::vector<Finding>& findings);

}  // namespace mpsd::runbook

#endif  // MPSD_CORE_RUNBOOK_FINDING_H_
