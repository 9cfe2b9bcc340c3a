// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/planner/judge.h"
#include "server/planner/texts.h"

// The machine: processor, system, memory.

// What takes speed and memory from jobs now: power, heat, other programs.

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
// need 15.
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

// iogpu.wired_limit_mb, only on a Mac.
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

namespace {

using runbook::Finding;

Finding PowerGate(const Facts& facts) {
  constexpr char kName[] = "power.source";
  const host::Reading& host = facts.host;
  if (!host.power_source) return NotTold(kName);
  if (*host.power_source == host::PowerSource::kMains) {
    return Pass(kName, "mains");
  }
  std::string found = "battery";
  if (host.battery_ratio) {
    absl::StrAppend(&found, ", ", PercentText(*host.battery_ratio));
  }
  return Warn(kName, found,
              "Plug it in: on battery the machine is slower, and by default "
              "jobs pause.");
}

Finding LowPowerGate(const Facts& facts) {
  constexpr char kName[] = "power.low_power_mode";
  if (!facts.host.low_power_mode) return NotTold(kName);
  if (!*facts.host.low_power_mode) return Pass(kName, "off");
  return Warn(kName, "on",
              "Switch Low Power Mode off (System Settings, Energy): it slows "
              "processor and GPU.");
}

Finding ThermalGate(const Facts& facts) {
  constexpr char kName[] = "power.thermal";
  if (!facts.host.thermal) return NotTold(kName);
  const host::Thermal level = *facts.host.thermal;
  const std::string found(host::Name(level));
  if (level == host::Thermal::kNominal) return Pass(kName, found);
  const char* advice =
      "Let it cool: free its vents, close what computes; figures measured now "
      "are of a slowed machine.";
  return level == host::Thermal::kModerate ? Warn(kName, found, advice)
                                           : Fail(kName, found, advice);
}

Finding PressureGate(const Facts& facts) {
  constexpr char kName[] = "memory.pressure";
  if (!facts.host.memory_pressure) return NotTold(kName);
  const host::MemoryPressure level = *facts.host.memory_pressure;
  const std::string found(host::Name(level));
  if (level == host::MemoryPressure::kNormal) return Pass(kName, found);
  const char* advice =
      "Close the programs with the most memory (memory.programs), or give "
      "jobs smaller batches.";
  return level == host::MemoryPressure::kWarn ? Warn(kName, found, advice)
                                              : Fail(kName, found, advice);
}

Finding SwapGate(const Facts& facts, const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "memory.swap";
  const auto swap = facts.host.swap_used_bytes;
  if (!swap) return NotTold(kName);
  const std::string found =
      absl::StrCat(BytesText(static_cast<double>(*swap)), " used");
  if (facts.machine.memory_bytes <= 0) return Pass(kName, found);
  const double ratio = static_cast<double>(*swap) /
                       static_cast<double>(facts.machine.memory_bytes);
  const double most = thresholds.Get("doctor.swap");
  if (ratio <= most) return With(Pass(kName, found), ratio, most, "ratio");
  return With(Warn(kName, found,
                   "Memory was short: close programs, then restart the "
                   "machine if it stays; a job that swaps takes many times as "
                   "long."),
              ratio, most, "ratio");
}

std::string NameOf(const OtherProcess& process) {
  std::string text = absl::StrCat(Foreign(process.name), " (pid ", process.pid);
  if (process.memory_bytes) {
    absl::StrAppend(&text, ", ",
                    BytesText(static_cast<double>(*process.memory_bytes)));
  }
  return text + ")";
}

// The largest other processes; those whose memory the system does not report
// are omitted.
Finding ProgramsGate(const Facts& facts,
                     const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "memory.programs";
  constexpr size_t kNamed = 5;
  if (!facts.processes || facts.machine.memory_bytes <= 0) {
    return NotTold(kName);
  }
  const double most = thresholds.Get("doctor.process_memory");
  const auto memory = static_cast<double>(facts.machine.memory_bytes);
  std::vector<std::string> large;
  double largest = 0;
  for (const OtherProcess& process : *facts.processes) {
    const double ratio =
        static_cast<double>(process.memory_bytes.value_or(0)) / memory;
    largest = std::max(largest, ratio);
    if (ratio > most && large.size() < kNamed) {
      large.push_back(NameOf(process));
    }
  }
  if (large.empty()) {
    return With(Pass(kName, absl::StrCat("no program holds ", PercentText(most),
                                         " of the memory")),
                largest, most, "ratio");
  }
  return With(Warn(kName, absl::StrJoin(large, ", "),
                   "Close them before a job that needs their memory."),
              largest, most, "ratio");
}

// While a job runs, the GPU is busy with the job.
Finding GpuGate(const Facts& facts, const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "gpu.programs";
  constexpr size_t kNamed = 8;
  std::vector<std::string> users;
  for (const OtherProcess& process :
       facts.processes.value_or(std::vector<OtherProcess>())) {
    if (process.uses_gpu && users.size() < kNamed) {
      users.push_back(NameOf(process));
    }
  }
  const auto busy = facts.host.gpu_utilization_ratio;
  if (users.empty() && !busy) return NotTold(kName);
  std::string found =
      users.empty() ? "no program is reported" : absl::StrJoin(users, ", ");
  if (!facts.running_job.empty()) {
    return Pass(kName, found + "; a job of mpsd has the device");
  }
  if (!busy) return Pass(kName, found);
  const double most = thresholds.Get("doctor.gpu_busy");
  absl::StrAppend(&found, "; busy ", PercentText(*busy));
  if (*busy <= most) return With(Pass(kName, found), *busy, most, "ratio");
  return With(Warn(kName, found,
                   "No job of mpsd runs, and the GPU works for others: close "
                   "them, or wait, before you measure."),
              *busy, most, "ratio");
}

}  // namespace

void JudgeLoad(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings) {
  findings.push_back(PowerGate(facts));
  findings.push_back(LowPowerGate(facts));
  findings.push_back(ThermalGate(facts));
  findings.push_back(PressureGate(facts));
  findings.push_back(SwapGate(facts, thresholds));
  findings.push_back(ProgramsGate(facts, thresholds));
  findings.push_back(GpuGate(facts, thresholds));
}

}  // namespace mpsd::doctor
