// SPDX-License-Identifier: Apache-2.0
#include "server/planner/doctor.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/host/environment.h"

// What the gates of `mpsctl doctor` find in the facts, group by group: texts,
// the comparison of environments, the machine, what slows it down now, torch,
// the disk, the service.

namespace mpsd::doctor {

namespace {

constexpr size_t kMostBytes = 256;  // of a text of others

}  // namespace

// Cut first: escaping a text of megabytes would make it four times as long.
std::string Foreign(std::string_view text) {
  return base::Shortened(base::Printable(text.substr(0, kMostBytes)),
                         kMostBytes);
}

namespace {

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

namespace {

using runbook::Finding;
using runbook::Verdict;

Finding Unknown(std::string name, std::string found = "unknown") {
  return {std::move(name), Verdict::kUnknown, std::move(found)};
}

Finding Pass(std::string name, std::string found) {
  return {std::move(name), Verdict::kPass, std::move(found)};
}

Finding Warn(std::string name, std::string found, std::string advice) {
  return {std::move(name), Verdict::kWarn, std::move(found), std::move(advice)};
}

Finding Fail(std::string name, std::string found, std::string advice) {
  return {std::move(name), Verdict::kFail, std::move(found), std::move(advice)};
}

// `finding` with the figure that was compared.
Finding With(Finding finding, double value, double threshold,
             const char* unit) {
  finding.value = value;
  finding.threshold = threshold;
  finding.unit = unit;
  return finding;
}

// A comparison: Pass if it is `good`, else Warn.
struct Figure {
  bool good;
  double value, threshold;
  const char* unit;
};
Figure AtMost(double value, double most, const char* unit) {
  return {value <= most, value, most, unit};
}
Figure AtLeast(double value, double least, const char* unit) {
  return {value >= least, value, least, unit};
}
Finding Compared(std::string name, const Figure& figure, std::string found,
                 std::string advice) {
  Finding finding{std::move(name), Verdict::kPass, std::move(found)};
  if (!figure.good) {
    finding.verdict = Verdict::kWarn;
    finding.advice = std::move(advice);
  }
  return With(std::move(finding), figure.value, figure.threshold, figure.unit);
}

std::string AgeText(absl::Duration age) {
  age = std::max(age, absl::ZeroDuration());
  if (age < absl::Minutes(2)) {
    return absl::StrCat(absl::ToInt64Seconds(age), " s");
  }
  if (age < absl::Hours(2)) {
    return absl::StrCat(absl::ToInt64Minutes(age), " min");
  }
  if (age < absl::Hours(48)) {
    return absl::StrCat(absl::ToInt64Hours(age), " h");
  }
  return absl::StrCat(absl::ToInt64Hours(age) / 24, " days");
}

std::string PercentText(double ratio) {
  return absl::StrFormat("%.0f %%", 100 * ratio);
}

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
  if (machine.architecture.empty()) return Unknown(kName);
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
  if (facts.machine.system.empty()) return Unknown(kName);
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
  if (facts.machine.chip.empty()) return Unknown("machine.chip");
  const auto cores = facts.machine.gpu_cores;
  return Pass("machine.chip",
              absl::StrCat(facts.machine.chip,
                           cores ? absl::StrCat(", GPU of ", *cores, " cores")
                                 : std::string()));
}

Finding CoresGate(const Facts& facts) {
  const host::Cores& cores = facts.machine.cores;
  if (cores.all <= 0) return Unknown("machine.cores");
  std::string found = absl::StrCat(cores.all);
  if (cores.fast && cores.efficient) {
    absl::StrAppend(&found, ", ", *cores.fast, " fast and ", *cores.efficient,
                    " efficient");
  }
  return Pass("machine.cores", found);
}

Finding MemoryGate(const Facts& facts) {
  if (facts.machine.memory_bytes <= 0) return Unknown("machine.memory");
  return Pass("machine.memory", base::BytesText(facts.machine.memory_bytes));
}

// iogpu.wired_limit_mb, only on a Mac.
Finding WiredLimitGate(const Facts& facts,
                       const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "machine.wired_limit";
  const auto limit = facts.host.wired_limit_bytes;
  if (!limit || facts.machine.memory_bytes <= 0) return Unknown(kName);
  if (*limit == 0) return Pass(kName, "the system's own policy");
  const double ratio = static_cast<double>(*limit) /
                       static_cast<double>(facts.machine.memory_bytes);
  const double most = thresholds.Get("doctor.wired_limit");
  const std::string found =
      absl::StrCat("the GPU may wire ", base::BytesText(*limit), ", ",
                   PercentText(ratio), " of the memory");
  return Compared(kName, AtMost(ratio, most, "ratio"), found,
                  "The system is left too little: lower it with `sudo sysctl "
                  "iogpu.wired_limit_mb=N`, or 0 for the system's own.");
}

void JudgeMachine(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings) {
  findings.push_back(ArchitectureGate(facts));
  findings.push_back(SystemGate(facts));
  findings.push_back(ChipGate(facts));
  findings.push_back(CoresGate(facts));
  findings.push_back(MemoryGate(facts));
  if (IsMac(facts)) findings.push_back(WiredLimitGate(facts, thresholds));
}

Finding PowerGate(const Facts& facts) {
  constexpr char kName[] = "power.source";
  const host::Reading& host = facts.host;
  if (!host.power_source) return Unknown(kName);
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
  if (!facts.host.low_power_mode) return Unknown(kName);
  if (!*facts.host.low_power_mode) return Pass(kName, "off");
  return Warn(kName, "on",
              "Switch Low Power Mode off (System Settings, Energy): it slows "
              "processor and GPU.");
}

Finding ThermalGate(const Facts& facts) {
  constexpr char kName[] = "power.thermal";
  if (!facts.host.thermal) return Unknown(kName);
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
  if (!facts.host.memory_pressure) return Unknown(kName);
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
  if (!swap) return Unknown(kName);
  const std::string found = absl::StrCat(base::BytesText(*swap), " used");
  if (facts.machine.memory_bytes <= 0) return Pass(kName, found);
  const double ratio = static_cast<double>(*swap) /
                       static_cast<double>(facts.machine.memory_bytes);
  const double most = thresholds.Get("doctor.swap");
  return Compared(kName, AtMost(ratio, most, "ratio"), found,
                  "Memory was short: close programs, then restart the machine "
                  "if it stays; a job that swaps takes many times as long.");
}

std::string NameOf(const OtherProcess& process) {
  std::string text = absl::StrCat(Foreign(process.name), " (pid ", process.pid);
  if (process.memory_bytes) {
    absl::StrAppend(&text, ", ", base::BytesText(*process.memory_bytes));
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
    return Unknown(kName);
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
  return Compared(kName, AtMost(largest, most, "ratio"),
                  large.empty()
                      ? absl::StrCat("no other process uses more than ",
                                     PercentText(most), " of memory")
                      : absl::StrJoin(large, ", "),
                  "Close them before a job that needs their memory.");
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
  if (users.empty() && !busy) return Unknown(kName);
  std::string found =
      users.empty() ? "no program is reported" : absl::StrJoin(users, ", ");
  if (!facts.running_job.empty()) {
    return Pass(kName, found + "; a job of mpsd has the device");
  }
  if (!busy) return Pass(kName, found);
  const double most = thresholds.Get("doctor.gpu_busy");
  absl::StrAppend(&found, "; busy ", PercentText(*busy));
  return Compared(kName, AtMost(*busy, most, "ratio"), found,
                  "No job of mpsd runs, and the GPU works for others: close "
                  "them, or wait, before you measure.");
}

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

using End = WorkerGates::End;

constexpr char kAsk[] =
    "`mpsd-worker --gates` shows it; log/mpsd.log in the state folder may have "
    "more.";

const Backend* Find(const Facts& facts, const char* name) {
  const auto& all = facts.worker.backends;
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Backend& b) { return b.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Finding WorkerGate(const Facts& facts) {
  constexpr char kName[] = "torch.worker";
  const WorkerGates& worker = facts.worker;
  if (worker.end == End::kDone) {
    return Pass(kName,
                absl::StrCat("mpsd-worker ", worker.worker_version, " starts"));
  }
  if (worker.end == End::kNotRun) {
    return Unknown(kName, worker.problem.empty() ? "unknown" : worker.problem);
  }
  // A second worker next to a job may lack memory: that is no fault.
  if (!facts.running_job.empty()) {
    return Unknown(kName,
                   absl::StrCat("could not look while job ", facts.running_job,
                                " has the device: ", worker.problem));
  }
  return Fail(kName, worker.problem, kAsk);
}

Finding ProtocolGate(const Facts& facts) {
  constexpr char kName[] = "torch.protocol";
  const WorkerGates& worker = facts.worker;
  if (worker.protocol_version == 0) return Unknown(kName);
  const std::string found = absl::StrCat(
      "mpsd ", facts.mpsd_version, " speaks ", facts.protocol_version,
      ", mpsd-worker ", worker.worker_version, " ", worker.protocol_version);
  if (worker.protocol_version != facts.protocol_version) {
    return Fail(kName, found,
                "They come from different builds: run deploy/install.sh, which "
                "puts both in place, and restart mpsd.");
  }
  if (worker.worker_version != facts.mpsd_version) {
    return Warn(kName, found,
                "They come from different releases: run deploy/install.sh and "
                "restart mpsd.");
  }
  return Pass(kName, found);
}

// major * 1000 + minor; 0 if the text is not a version.
int NumberOf(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0, minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return 0;
  }
  return major * 1000 + minor;
}

// "2.15.0+cu130" and "2.15.0" are one release.
std::string Release(const std::string& version) {
  return version.substr(0, version.find('+'));
}

Finding VersionGate(const Facts& facts) {
  constexpr char kName[] = "torch.version";
  constexpr int kOldestOfMac = 2014;
  const WorkerGates& worker = facts.worker;
  if (worker.torch_version.empty()) return Unknown(kName);
  const std::string found = absl::StrCat(
      worker.torch_version, ", built against ", worker.built_against);
  if (!worker.built_against.empty() &&
      Release(worker.torch_version) != Release(worker.built_against)) {
    return Fail(kName, found,
                "mpsd-worker loads another torch than it was made with: look "
                "for a stray library path (the environment below), or build "
                "and install again.");
  }
  const int number = NumberOf(worker.torch_version);
  if (IsMac(facts) && number > 0 && number < kOldestOfMac) {
    return Fail(kName, found,
                "Use torch 2.14 or later: earlier ones give wrong results on "
                "MPS without an error.");
  }
  return Pass(kName, found);
}

// Built and available are reported separately: their remedies differ.
Finding BackendGate(const Backend& backend) {
  const std::string name = absl::StrCat("device.", backend.name);
  if (backend.available) {
    return Pass(name, absl::StrCat("built, available: ", backend.device));
  }
  if (!backend.built) {
    return Fail(name, "this torch is built without it",
                "Run deploy/setup.sh, which installs a torch that has it, and "
                "build again.");
  }
  return Fail(name, absl::StrCat("built, but not available: ", backend.problem),
              "See that mpsd runs where the GPU can be reached, not in a "
              "virtual machine or a container; restart the machine.");
}

// MPS on a Mac, CUDA with an NVIDIA card: other machines need neither.
void JudgeBackends(const Facts& facts, Findings& findings) {
  if (!IsMac(facts) && !facts.machine.nvidia) return;
  const char* name = IsMac(facts) ? "mps" : "cuda";
  const Backend* backend = Find(facts, name);
  findings.push_back(backend == nullptr ? Unknown(absl::StrCat("device.", name))
                                        : BackendGate(*backend));
}

Finding MatmulGate(const Facts& facts) {
  constexpr char kName[] = "torch.matmul";
  if (!facts.worker.matmul) return Unknown(kName);
  const Matmul& matmul = *facts.worker.matmul;
  const std::string found = absl::StrFormat(
      "matmul %s on %s (%.0f ms)%s", matmul.right ? "correct" : "WRONG",
      matmul.result_device, 1000 * matmul.seconds,
      matmul.asked_device == matmul.result_device
          ? ""
          : absl::StrCat(", requested on ", matmul.asked_device));
  if (!matmul.right) {
    return Fail(kName, found,
                "The device multiplies wrongly: run `mpsd-worker --selftest`, "
                "restart the machine, update macOS and torch.");
  }
  if (matmul.asked_device != matmul.result_device) {
    return Fail(kName, found,
                "The product was computed on another device than requested: "
                "unset PYTORCH_ENABLE_MPS_FALLBACK.");
  }
  const auto& all = facts.worker.backends;
  const bool has_device =
      std::any_of(all.begin(), all.end(),
                  [](const Backend& backend) { return backend.available; });
  return Pass(kName,
              has_device ? found : found + "; jobs train on the processor");
}

Finding SelftestGate(const Facts& facts,
                     const runbook::Thresholds& thresholds) {
  using State = Selftest::State;
  constexpr char kName[] = "device.selftest";
  const Selftest& test = facts.selftest;
  if (test.running) return Unknown(kName, "it runs now");
  switch (test.state) {
    case State::kUnknown:
      return Unknown(kName);
    case State::kSkipped:
      return Warn(kName, "off: mpsd runs with --skip-selftest",
                  "Start mpsd without --skip-selftest, or run `mpsd-worker "
                  "--selftest`: nothing else finds wrong kernels.");
    case State::kNothingToTest:
      return Pass(kName, "no accelerator to test");
    case State::kFailed:
      return Fail(kName, absl::StrCat("failed: ", test.summary),
                  "No job starts. Close what else uses the GPU; restart the "
                  "machine; update macOS or torch. `mpsd-worker --selftest` "
                  "shows the table.");
    case State::kPassed:
      break;
  }
  std::string found = absl::StrCat("passed on ", test.device);
  if (!test.time) return Pass(kName, found);
  const absl::Duration age = facts.time - *test.time;
  const double days = absl::ToDoubleHours(age) / 24;
  const double most = thresholds.Get("doctor.selftest_age");
  absl::StrAppend(&found, ", ", AgeText(age), " ago");
  return Compared(kName, AtMost(days, most, "days"), found,
                  "Run it again: `mpsctl doctor --deep`.");
}

void JudgeTorch(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings) {
  findings.push_back(WorkerGate(facts));
  findings.push_back(ProtocolGate(facts));
  findings.push_back(VersionGate(facts));
  JudgeBackends(facts, findings);
  findings.push_back(MatmulGate(facts));
  findings.push_back(SelftestGate(facts, thresholds));
}

Finding FreeGate(const Facts& facts, const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "disk.free";
  const Disk& disk = facts.disk;
  if (!disk.free_bytes) return Unknown(kName);
  const auto free = static_cast<double>(*disk.free_bytes);
  std::string found = absl::StrCat(base::BytesText(free), " free");
  if (disk.size_bytes) {
    absl::StrAppend(&found, " of ", base::BytesText(*disk.size_bytes));
  }
  const auto least = static_cast<double>(disk.min_free_bytes);
  if (free < least) {
    return With(Fail(kName, found,
                     "No job starts below --min-free-bytes: free space; "
                     "`mpsctl admin gc` shows what can be removed."),
                free, least, "bytes");
  }
  const double wanted = thresholds.Get("doctor.disk_free");
  return Compared(
      kName, AtLeast(free, wanted, "bytes"), found,
      "Free space before a long job: `mpsctl admin gc` shows what can be "
      "removed.");
}

Finding SpeedGate(const char* name, double speed, absl::Duration age,
                  double least) {
  std::string found = absl::StrCat(base::BytesText(speed), "/s");
  if (age > absl::Minutes(2)) {
    absl::StrAppend(&found, ", measured ", AgeText(age), " ago");
  }
  return Compared(name, AtLeast(speed, least, "bytes/s"), found,
                  "Checkpoints and models wait for this disk: put the state "
                  "folder on a faster one (--state-dir).");
}

void JudgeSpeed(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings) {
  const Disk& disk = facts.disk;
  if (!disk.speed) {
    const std::string why = disk.speed_problem.empty()
                                ? "not measured: `mpsctl doctor --deep` does"
                                : "not measured: " + disk.speed_problem;
    findings.push_back(Unknown("disk.write", why));
    findings.push_back(Unknown("disk.read", why));
    return;
  }
  const absl::Duration age = facts.time - disk.speed->time;
  const double least = thresholds.Get("doctor.disk_speed");
  findings.push_back(
      SpeedGate("disk.write", disk.speed->write_bytes_per_second, age, least));
  findings.push_back(
      SpeedGate("disk.read", disk.speed->read_bytes_per_second, age, least));
}

Finding MountGate(const FolderMount& folder) {
  const std::string name = absl::StrCat("mount.", folder.what);
  if (!folder.mount) return Unknown(name);
  const host::Mount& mount = *folder.mount;
  const std::string found =
      absl::StrCat(Foreign(folder.folder), " on ", Foreign(mount.type),
                   mount.network ? ", a network volume from " : " of ",
                   Foreign(mount.source));
  if (mount.network && folder.what == "state") {
    return Fail(name, found,
                "A database on a network volume may be lost, and its locks do "
                "not hold: move the state folder to a disk of this machine.");
  }
  if (mount.network) {
    return Warn(name, found,
                "Each start waits for the network, and its stalls look like "
                "slow training: copy it to a disk of this machine.");
  }
  // Models and data are only read.
  if (mount.read_only && folder.what == "state") {
    return Fail(name, found + ", mounted read-only",
                "Mount it for writing: mpsd keeps everything there.");
  }
  return Pass(name, found);
}

void JudgeDisk(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings) {
  findings.push_back(FreeGate(facts, thresholds));
  JudgeSpeed(facts, thresholds, findings);
  for (const FolderMount& folder : facts.mounts) {
    findings.push_back(MountGate(folder));
  }
}

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
  return Compared(kName, AtLeast(limit, least, "descriptors"), found,
                  "Raise it: NumberOfFiles in the plist, LimitNOFILE in the "
                  "unit, `ulimit -n` in a shell.");
}

Finding ProcessesGate(const Facts& facts,
                      const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "limits.processes";
  const double least = thresholds.Get("doctor.processes");
  if (!facts.limits.processes) return Pass(kName, "no limit");
  const auto limit = static_cast<double>(*facts.limits.processes);
  const std::string found =
      absl::StrCat(*facts.limits.processes, " allowed to mpsd's user");
  return Compared(kName, AtLeast(limit, least, "processes"), found,
                  "Raise it: NumberOfProcesses in the plist, LimitNPROC in the "
                  "unit, `ulimit -u` in a shell.");
}

Finding FileGate(const Facts& facts) {
  constexpr char kName[] = "service.file";
  const Service& service = facts.service;
  if (service.file.empty()) {
    return Unknown(kName, "none found: mpsd was started by hand");
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
  return Compared(
      kName, AtLeast(static_cast<double>(*limit), least, "descriptors"),
      absl::StrCat(*limit, " in the file"), "Run deploy/install.sh again.");
}

// A worker that is killed before its checkpoint is complete loses steps.
Finding StopGate(const Facts& facts) {
  constexpr char kName[] = "service.stop_time";
  const auto seconds = facts.service.stop_seconds;
  if (!seconds) {
    return Unknown(kName, "the file sets none: the manager's own");
  }
  const std::string found =
      absl::StrCat(*seconds, " s from SIGTERM to SIGKILL; a worker gets ",
                   facts.stop_grace_seconds, " s for its checkpoint");
  // launchd's 0 waits forever.
  const bool endless = facts.service.manager == "launchd" && *seconds == 0;
  Figure figure = AtLeast(*seconds, facts.stop_grace_seconds, "s");
  figure.good = figure.good || endless;
  return Compared(kName, figure, found,
                  "Raise ExitTimeOut in the plist or TimeoutStopSec in the "
                  "unit above --stop-grace-seconds.");
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
                "Write the intended value into the plist, the unit or "
                "[environment] of mpsd.toml, and restart mpsd.");
  }
  const bool worker = facts.worker.end == WorkerGates::End::kDone;
  const bool service = facts.service.runs_mpsd.value_or(false);
  if (!worker && !service) return Unknown(kName);
  return Pass(kName,
              absl::StrCat(table.size(), " variables, ",
                           service ? "as the service's file has them"
                                   : "no service to compare with",
                           worker ? "" : "; no worker reported its own"));
}

// Variables that are harmful whatever their origin: what they name is loaded
// into mpsd or its workers, or they hide that the GPU does not do the work.
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

}  // namespace

Findings Judge(const Facts& facts, const runbook::Thresholds& thresholds) {
  Findings findings;
  JudgeMachine(facts, thresholds, findings);
  JudgeTorch(facts, thresholds, findings);
  JudgeDisk(facts, thresholds, findings);
  JudgeLoad(facts, thresholds, findings);
  JudgeService(facts, thresholds, findings);
  return findings;
}

}  // namespace mpsd::doctor
