// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/planner/doctor.h"

namespace mpsd::doctor {

inline const absl::Time kNow = absl::FromUnixSeconds(1767323045);

// A Mac on which nothing is wrong: mpsd is its LaunchDaemon.
inline Facts HealthyMac() {
  Facts facts;
  facts.time = kNow;
  facts.mpsd_version = "0.1.0";
  facts.protocol_version = 7;
  facts.machine.architecture = "arm64";
  facts.machine.translated = false;
  facts.machine.system = "macOS 26.1 (25B78)";
  facts.machine.macos_version = "26.1";
  facts.machine.chip = "Apple M4 Pro";
  facts.machine.cores = {14, 10, 4};
  facts.machine.gpu_cores = 20;
  facts.machine.memory_bytes = int64_t{48} << 30;
  facts.host.power_source = host::PowerSource::kMains;
  facts.host.low_power_mode = false;
  facts.host.thermal = host::Thermal::kNominal;
  facts.host.memory_pressure = host::MemoryPressure::kNormal;
  facts.host.swap_used_bytes = 1 << 20;
  facts.host.gpu_utilization_ratio = 0.02;
  facts.host.wired_limit_bytes = 0;
  facts.worker.end = WorkerGates::End::kDone;
  facts.worker.time = kNow;
  facts.worker.worker_version = "0.1.0";
  facts.worker.protocol_version = 7;
  facts.worker.torch_version = "2.15.0";
  facts.worker.built_against = "2.15.0";
  facts.worker.backends = {{"mps", true, true, "Apple M4 Pro", ""},
                           {"cuda", false, false, "", "no such library"}};
  facts.worker.matmul = Matmul{"mps", "mps", true, 0.02};
  facts.worker.environment = {{"OMP_WAIT_POLICY", "PASSIVE"}};
  facts.expected_environment = {{"OMP_WAIT_POLICY", "PASSIVE"}};
  facts.selftest = {Selftest::State::kPassed, false, "mps", "",
                    kNow - absl::Hours(24)};
  facts.disk.free_bytes = 300'000'000'000;
  facts.disk.size_bytes = 1'000'000'000'000;
  facts.disk.min_free_bytes = 1 << 30;
  facts.disk.speed = DiskSpeed{3e9, 4e9, kNow};
  const host::Mount local{"/", "apfs", "/dev/disk3s1", false, false};
  facts.mounts = {{"state", "/srv/mpsd", local},
                  {"cache", "/srv/mpsd/cache", local},
                  {"models", "/srv/models", local},
                  {"data", "/srv/data", local}};
  facts.processes = {{612, "WindowServer", int64_t{1} << 30, true}};
  facts.open_descriptors = 40;
  facts.limits = {8192, 4000};
  facts.service.manager = "launchd";
  facts.service.file = "/Library/LaunchDaemons/org.mpsd.daemon.plist";
  facts.service.runs_mpsd = true;
  facts.service.environment = {{"PATH", "/usr/bin:/bin"}};
  facts.service.process_type = "Interactive";
  facts.service.descriptors = 8192;
  facts.service.stop_seconds = 150;
  facts.stop_grace_seconds = 120;
  return facts;
}

// A machine with Linux and a card of NVIDIA's: mpsd is its systemd unit.
inline Facts HealthyLinux() {
  Facts facts = HealthyMac();
  facts.machine = {};
  facts.machine.architecture = "x86_64";
  facts.machine.system = "Linux 6.1.0 x86_64";
  facts.machine.chip = "a processor";
  facts.machine.nvidia = true;
  facts.machine.cores.all = 16;
  facts.machine.memory_bytes = int64_t{64} << 30;
  facts.host = {};
  facts.worker.backends = {{"mps", false, false, "", "no MPS device"},
                           {"cuda", true, true, "CUDA device 0", ""}};
  facts.worker.matmul = Matmul{"cuda", "cuda", true, 0.02};
  facts.selftest.device = "cuda";
  facts.service.manager = "systemd";
  facts.service.file = "/etc/systemd/system/mpsd.service";
  facts.service.process_type.clear();
  return facts;
}

// The verdicts that are neither kPass nor kUnknown, by name.
inline std::map<std::string, runbook::Verdict> Wrong(
    const Facts& facts, const runbook::Thresholds& thresholds = {}) {
  std::map<std::string, runbook::Verdict> wrong;
  for (const runbook::Finding& finding : Judge(facts, thresholds)) {
    if (finding.verdict >= runbook::Verdict::kWarn) {
      wrong[finding.name] = finding.verdict;
    }
  }
  return wrong;
}

inline runbook::Finding FindingOf(const Facts& facts, const std::string& name) {
  for (const runbook::Finding& finding : Judge(facts, {})) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << "there is no finding " << name;
  return {};
}

// One fault of a healthy machine, the one gate that finds it, and words of what
// that gate says.
struct Fault {
  std::string what;
  std::function<void(Facts&)> plant;
  std::string gate;
  runbook::Verdict verdict;
  std::string words;
};

inline constexpr runbook::Verdict kWarn = runbook::Verdict::kWarn;
inline constexpr runbook::Verdict kFail = runbook::Verdict::kFail;

// Each fault alone is found by its gate, and no other gate sees anything.
inline void ExpectEachFound(const Facts& healthy,
                            const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    Facts facts = healthy;
    fault.plant(facts);
    const std::map<std::string, runbook::Verdict> expected = {
        {fault.gate, fault.verdict}};
    EXPECT_EQ(Wrong(facts), expected);
    const runbook::Finding finding = FindingOf(facts, fault.gate);
    EXPECT_NE(finding.found.find(fault.words), std::string::npos)
        << finding.found;
    EXPECT_NE(finding.advice, "");
  }
}

}  // namespace mpsd::doctor
