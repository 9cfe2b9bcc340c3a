// SPDX-License-Identifier: Apache-2.0
// How mpsd is started: limits, the service manager's file, the environment.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/doctor/environment_table.h"
#include "server/doctor/finding_of.h"
#include "server/doctor/judge.h"
#include "server/doctor/texts.h"

namespace mpsd::doctor {
namespace {

using runbook::Finding;

Finding DescriptorsGate(const Facts& facts,
                        const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "limits.descriptors";
  const double least = thresholds.Get("doctor.descriptors");
  if (!facts.limits.descriptors) return Pass(kName, "no limit");
  const auto limit = static_cast<double>(*facts.limits.descriptors);
  std::string found = absl::StrCat(*facts.limits.descriptors, " allowed");
  if (facts.open_descriptors) {
    absl::StrAppend(&found, ", ", *facts.open_descriptors, " open");
  }
  if (limit >= least) {
    return With(Pass(kName, found), limit, least, "descriptors");
  }
  return With(Warn(kName, found,
                   "Raise it: NumberOfFiles in the plist, LimitNOFILE in the "
                   "unit, `ulimit -n` in a shell."),
              limit, least, "descriptors");
}

Finding ProcessesGate(const Facts& facts,
                      const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "limits.processes";
  const double least = thresholds.Get("doctor.processes");
  if (!facts.limits.processes) return Pass(kName, "no limit");
  const auto limit = static_cast<double>(*facts.limits.processes);
  const std::string found =
      absl::StrCat(*facts.limits.processes, " allowed to mpsd's user");
  if (limit >= least) {
    return With(Pass(kName, found), limit, least, "processes");
  }
  return With(Warn(kName, found,
                   "Raise it: NumberOfProcesses in the plist, LimitNPROC in "
                   "the unit, `ulimit -u` in a shell."),
              limit, least, "processes");
}

Finding FileGate(const Facts& facts) {
  constexpr char kName[] = "service.file";
  const Service& service = facts.service;
  if (service.file.empty()) {
    return NotTold(kName, "none found: mpsd was started by hand");
  }
  const std::string found =
      absl::StrCat(service.manager, ", ", Foreign(service.file));
  if (!service.runs_mpsd) return Pass(kName, found);
  if (*service.runs_mpsd) return Pass(kName, found + ", which runs this mpsd");
  return Warn(kName, found + ", but this mpsd was started otherwise",
              "Two may wait for one device, and this one has the environment "
              "of a shell: stop it and start the service.");
}

Finding ProcessTypeGate(const Facts& facts) {
  constexpr char kName[] = "service.process_type";
  const std::string& type = facts.service.process_type;
  if (type == "Interactive") return Pass(kName, type);
  return Warn(kName, type.empty() ? "none" : type,
              "Set ProcessType to Interactive in the plist (deploy/install.sh "
              "does): otherwise launchd throttles processor and disk.");
}

Finding FileDescriptorsGate(const Facts& facts,
                            const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "service.descriptors";
  const double least = thresholds.Get("doctor.descriptors");
  const auto limit = facts.service.descriptors;
  if (!limit) {
    return Warn(kName, "the file sets none",
                "Run deploy/install.sh again: launchd's own limit is 256, "
                "systemd's 1024.");
  }
  const std::string found = absl::StrCat(*limit, " in the file");
  const auto figure = static_cast<double>(*limit);
  if (figure >= least) {
    return With(Pass(kName, found), figure, least, "descriptors");
  }
  return With(Warn(kName, found, "Run deploy/install.sh again."), figure, least,
              "descriptors");
}

// A worker that is killed before its checkpoint is whole loses steps.
Finding StopGate(const Facts& facts) {
  constexpr char kName[] = "service.stop_time";
  const auto seconds = facts.service.stop_seconds;
  if (!seconds) {
    return NotTold(kName, "the file sets none: the manager's own");
  }
  const std::string found =
      absl::StrCat(*seconds, " s from SIGTERM to SIGKILL; a worker gets ",
                   facts.stop_grace_seconds, " s for its checkpoint");
  // launchd's 0 waits for ever.
  const bool endless = facts.service.manager == "launchd" && *seconds == 0;
  if (endless || *seconds >= facts.stop_grace_seconds) {
    return With(Pass(kName, found), *seconds, facts.stop_grace_seconds, "s");
  }
  return With(Warn(kName, found,
                   "Raise ExitTimeOut in the plist or TimeoutStopSec in the "
                   "unit above --stop-grace-seconds."),
              *seconds, facts.stop_grace_seconds, "s");
}

Finding DriftGate(const std::vector<Variable>& table, const Facts& facts) {
  constexpr char kName[] = "environment.drift";
  std::vector<std::string> drifted;
  for (const Variable& variable : table) {
    if (variable.drift.empty()) continue;
    drifted.push_back(absl::StrCat(variable.name, ": ", variable.drift));
  }
  if (!drifted.empty()) {
    return Warn(kName, absl::StrJoin(drifted, "; "),
                "Write what is meant into the plist, the unit or "
                "[environment] of mpsd.toml, and restart mpsd.");
  }
  const bool worker = facts.worker.end == WorkerGates::End::kDone;
  const bool service = facts.service.runs_mpsd.value_or(false);
  if (!worker && !service) return NotTold(kName);
  return Pass(kName, absl::StrCat(table.size(), " variables, ",
                                  service ? "as the service's file has them"
                                          : "no service to compare with",
                                  worker ? "" : "; no worker told its own"));
}

// Variables that harm wherever they come from: what they name is loaded into
// mpsd or its workers, or hides that the GPU does not do the work.
Finding HarmGate(const std::vector<Variable>& table) {
  constexpr char kName[] = "environment.harmful";
  constexpr std::string_view kHarmful[] = {"DYLD_INSERT_LIBRARIES",
                                           "LD_PRELOAD",
                                           "PYTHONPATH",
                                           "PYTHONHOME",
                                           "MTL_DEBUG_LAYER",
                                           "MTL_SHADER_VALIDATION",
                                           "LD_AUDIT",
                                           "CUDA_LAUNCH_BLOCKING"};
  std::vector<std::string> found;
  for (const Variable& variable : table) {
    const auto& value = variable.worker ? variable.worker : variable.daemon;
    if (!value || value->empty() || *value == "0") continue;
    const bool fallback = variable.name == "PYTORCH_ENABLE_MPS_FALLBACK";
    if (fallback || std::find(std::begin(kHarmful), std::end(kHarmful),
                              variable.name) != std::end(kHarmful)) {
      found.push_back(absl::StrCat(variable.name, "=", *value));
    }
  }
  if (found.empty()) return Pass(kName, "none is set");
  return Warn(kName, absl::StrJoin(found, ", "),
              "Unset them for mpsd: they load other code into it, slow the "
              "device down, or hide what runs on the processor.");
}

}  // namespace

void JudgeService(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings) {
  findings.push_back(DescriptorsGate(facts, thresholds));
  findings.push_back(ProcessesGate(facts, thresholds));
  findings.push_back(FileGate(facts));
  if (!facts.service.file.empty()) {
    if (facts.service.manager == "launchd") {
      findings.push_back(ProcessTypeGate(facts));
    }
    findings.push_back(FileDescriptorsGate(facts, thresholds));
    findings.push_back(StopGate(facts));
  }
  const std::vector<Variable> table = CompareEnvironments(facts);
  findings.push_back(DriftGate(table, facts));
  findings.push_back(HarmGate(table));
}

}  // namespace mpsd::doctor
