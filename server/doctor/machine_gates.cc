// SPDX-License-Identifier: Apache-2.0
// The machine itself: processor, system, memory.
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/doctor/finding_of.h"
#include "server/doctor/judge.h"
#include "server/doctor/texts.h"

namespace mpsd::doctor {
namespace {

using runbook::Finding;

bool IsMac(const Facts& facts) { return !facts.machine.macos_version.empty(); }

Finding ArchitectureGate(const Facts& facts) {
  constexpr char kName[] = "machine.architecture";
  const Machine& machine = facts.machine;
  if (machine.translated.value_or(false)) {
    return Fail(kName,
                absl::StrCat(machine.architecture,
                             ", translated by Rosetta for an Apple chip"),
                "Build mpsd and mpsd-worker for arm64 in a shell that is not "
                "translated itself (`arch` says arm64).");
  }
  if (machine.architecture.empty()) return NotTold(kName);
  if (IsMac(facts) && machine.architecture != "arm64") {
    return Fail(kName, absl::StrCat(machine.architecture, ", an Intel Mac"),
                "torch's MPS needs an Apple chip: use another Mac.");
  }
  return Pass(kName, absl::StrCat(machine.architecture,
                                  machine.translated ? ", native" : ""));
}

// core/device and torch: 2.9 to 2.14 run on macOS 14, 2.15 and mpsd's own build
// want 15.
Finding SystemGate(const Facts& facts) {
  constexpr char kName[] = "machine.system";
  constexpr int kOldest = 15;
  const std::string& version = facts.machine.macos_version;
  if (facts.machine.system.empty()) return NotTold(kName);
  int major = 0;
  if (IsMac(facts) &&
      absl::SimpleAtoi(version.substr(0, version.find('.')), &major) &&
      major < kOldest) {
    return With(Fail(kName, absl::StrCat("macOS ", version),
                     "Update to macOS 15 or later: torch's MPS and "
                     "mpsd-worker are made for it."),
                major, kOldest, "macOS");
  }
  return Pass(kName, facts.machine.system);
}

Finding ChipGate(const Facts& facts) {
  if (facts.machine.chip.empty()) return NotTold("machine.chip");
  const auto cores = facts.machine.gpu_cores;
  return Pass("machine.chip",
              absl::StrCat(facts.machine.chip,
                           cores ? absl::StrCat(", GPU of ", *cores, " cores")
                                 : std::string()));
}

Finding CoresGate(const Facts& facts) {
  const host::Cores& cores = facts.machine.cores;
  if (cores.all <= 0) return NotTold("machine.cores");
  std::string found = absl::StrCat(cores.all);
  if (cores.fast && cores.efficient) {
    absl::StrAppend(&found, ", ", *cores.fast, " fast and ", *cores.efficient,
                    " efficient");
  }
  return Pass("machine.cores", found);
}

Finding MemoryGate(const Facts& facts) {
  if (facts.machine.memory_bytes <= 0) return NotTold("machine.memory");
  return Pass("machine.memory",
              BytesText(static_cast<double>(facts.machine.memory_bytes)));
}

// iogpu.wired_limit_mb, on a Mac alone.
Finding WiredLimitGate(const Facts& facts,
                       const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "machine.wired_limit";
  const auto limit = facts.host.wired_limit_bytes;
  if (!limit || facts.machine.memory_bytes <= 0) return NotTold(kName);
  if (*limit == 0) return Pass(kName, "the system's own policy");
  const double ratio = static_cast<double>(*limit) /
                       static_cast<double>(facts.machine.memory_bytes);
  const double most = thresholds.Get("doctor.wired_limit");
  const std::string found =
      absl::StrCat("the GPU may wire ", BytesText(static_cast<double>(*limit)),
                   ", ", PercentText(ratio), " of the memory");
  if (ratio <= most) return With(Pass(kName, found), ratio, most, "ratio");
  return With(Warn(kName, found,
                   "The system is left too little: lower it with `sudo sysctl "
                   "iogpu.wired_limit_mb=N`, or 0 for the system's own."),
              ratio, most, "ratio");
}

}  // namespace

void JudgeMachine(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings) {
  findings.push_back(ArchitectureGate(facts));
  findings.push_back(SystemGate(facts));
  findings.push_back(ChipGate(facts));
  findings.push_back(CoresGate(facts));
  findings.push_back(MemoryGate(facts));
  if (IsMac(facts)) findings.push_back(WiredLimitGate(facts, thresholds));
}

}  // namespace mpsd::doctor
