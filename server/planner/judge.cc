// SPDX-License-Identifier: Apache-2.0
#include "server/planner/judge.h"

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/host/environment.h"
#include "server/planner/texts.h"

namespace mpsd::doctor {

Findings Judge(const Facts& facts, const runbook::Thresholds& thresholds) {
  Findings findings;
  JudgeMachine(facts, thresholds, findings);
  JudgeTorch(facts, thresholds, findings);
  JudgeDisk(facts, thresholds, findings);
  JudgeLoad(facts, thresholds, findings);
  JudgeService(facts, thresholds, findings);
  return findings;
}

namespace {

constexpr size_t kMostVariables = 100;

std::optional<std::string> In(const host::Environment& environment,
                              const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

bool IsLocale(const std::string& name) {
  return name == "LANG" || name == "TZ" || name.starts_with("LC_");
}

// The values themselves: the displayed ones have no secrets and are cut.
std::string DriftOf(const Variable& variable, const Facts& facts) {
  if (facts.service.runs_mpsd.value_or(false)) {
    const bool stray = !variable.service && !IsLocale(variable.name);
    if (variable.service && variable.service != variable.daemon) {
      return "mpsd runs with another value than its service's file has";
    }
    if (variable.daemon && stray) return "its service's file does not name it";
  }
  const bool reported = facts.worker.end == WorkerGates::End::kDone;
  if (reported && variable.worker != variable.expected) {
    return "the worker has another value than mpsd gives it";
  }
  return "";
}

void Show(const std::string& name, std::optional<std::string>& value) {
  if (!value) return;
  value = host::MayBeSecret(name, *value) ? "set" : Foreign(*value);
}

// In the worker's format: escaped, a secret as "set".
std::optional<std::string> Displayed(const std::string& name,
                                     const std::optional<std::string>& value) {
  if (!value) return std::nullopt;
  if (host::MayBeSecret(name, *value)) return "set";
  return base::Printable(*value);
}

Variable Look(const std::string& name, const Facts& facts) {
  Variable variable;
  variable.name = name;
  variable.service = In(facts.configured, name);
  if (!variable.service) variable.service = In(facts.service.environment, name);
  variable.daemon = In(facts.daemon_environment, name);
  variable.expected = Displayed(name, In(facts.expected_environment, name));
  variable.worker = Displayed(name, In(facts.worker.environment, name));
  variable.drift = DriftOf(variable, facts);
  variable.name = Foreign(name);
  for (auto* value : {&variable.service, &variable.daemon, &variable.expected,
                      &variable.worker}) {
    Show(name, *value);
  }
  return variable;
}

}  // namespace

std::vector<Variable> CompareEnvironments(const Facts& facts) {
  std::set<std::string> names;
  for (const auto* environment :
       {&facts.service.environment, &facts.configured,
        &facts.daemon_environment, &facts.expected_environment,
        &facts.worker.environment}) {
    for (const auto& [name, value] : *environment) {
      if (host::Matters(name)) names.insert(name);
    }
  }
  std::vector<Variable> table;
  table.reserve(names.size());
  for (const std::string& name : names) table.push_back(Look(name, facts));
  if (table.size() <= kMostVariables) return table;
  std::stable_partition(table.begin(), table.end(),
                        [](const Variable& v) { return !v.drift.empty(); });
  table.resize(kMostVariables);
  return table;
}

}  // namespace mpsd::doctor
