// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

// --- machine gates -----------------------------------------------------------

TEST(MachineGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"Rosetta",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated = true;
        },
        "machine.architecture", kFail, "translated by Rosetta"},
       {"an Intel Mac",
        [](Facts& f) {
          f.machine.architecture = "x86_64";
          f.machine.translated.reset();
        },
        "machine.architecture", kFail, "Intel"},
       {"an old macOS", [](Facts& f) { f.machine.macos_version = "14.7.1"; },
        "machine.system", kFail, "macOS 14.7.1"},
       {"the GPU may wire everything",
        [](Facts& f) { f.host.wired_limit_bytes = int64_t{47} << 30; },
        "machine.wired_limit", kWarn, "98 %"}});
}

TEST(MachineGates, TellTheMachine) {
  const Facts facts = HealthyMac();
  EXPECT_EQ(FindingOf(facts, "machine.architecture").found, "arm64, native");
  EXPECT_EQ(FindingOf(facts, "machine.chip").found,
            "Apple M4 Pro, GPU of 20 cores");
  EXPECT_EQ(FindingOf(facts, "machine.cores").found,
            "14, 10 fast and 4 efficient");
  EXPECT_EQ(FindingOf(facts, "machine.memory").found, "51.5 GB");
  EXPECT_EQ(FindingOf(HealthyLinux(), "machine.architecture").found, "x86_64");
}

TEST(MachineGates, AWiredLimitBelowTheMostIsNoFault) {
  Facts facts = HealthyMac();
  facts.host.wired_limit_bytes = int64_t{40} << 30;
  EXPECT_EQ(FindingOf(facts, "machine.wired_limit").verdict,
            runbook::Verdict::kPass);
}

// --- load gates --------------------------------------------------------------

using runbook::Verdict;
using testing::HasSubstr;

TEST(LoadGates, FindEachFault) {
  ExpectEachFound(
      HealthyMac(),
      {{"the plug is out",
        [](Facts& f) {
          f.host.power_source = host::PowerSource::kBattery;
          f.host.battery_ratio = 0.62;
        },
        "power.source", kWarn, "battery, 62 %"},
       {"Low Power Mode", [](Facts& f) { f.host.low_power_mode = true; },
        "power.low_power_mode", kWarn, "on"},
       {"warm", [](Facts& f) { f.host.thermal = host::Thermal::kModerate; },
        "power.thermal", kWarn, "moderate"},
       {"hot", [](Facts& f) { f.host.thermal = host::Thermal::kHeavy; },
        "power.thermal", kFail, "heavy"},
       {"memory is short",
        [](Facts& f) { f.host.memory_pressure = host::MemoryPressure::kWarn; },
        "memory.pressure", kWarn, "warn"},
       {"memory is out",
        [](Facts& f) {
          f.host.memory_pressure = host::MemoryPressure::kCritical;
        },
        "memory.pressure", kFail, "critical"},
       {"the machine swaps",
        [](Facts& f) { f.host.swap_used_bytes = int64_t{9} << 30; },
        "memory.swap", kWarn, "9.7 GB used"},
       {"a large program",
        [](Facts& f) {
          f.processes->push_back({99, "Photos", int64_t{7} << 30, false});
        },
        "memory.programs", kWarn, "Photos (pid 99, 7.5 GB)"},
       {"others use the GPU",
        [](Facts& f) {
          f.host.gpu_utilization_ratio = 0.8;
          f.processes->push_back({98, "Blender", std::nullopt, true});
        },
        "gpu.programs", kWarn, "Blender (pid 98); busy 80 %"}});
}

TEST(LoadGates, AJobMayUseTheGpu) {
  Facts facts = HealthyMac();
  facts.host.gpu_utilization_ratio = 0.99;
  facts.running_job = "01KAH0000000000000000000AA";
  EXPECT_THAT(Wrong(facts), testing::IsEmpty());
  EXPECT_THAT(FindingOf(facts, "gpu.programs").found,
              HasSubstr("a job of mpsd has the device"));
}

TEST(LoadGates, NamesFiveOfManyLargePrograms) {
  Facts facts = HealthyMac();
  for (int i = 0; i < 9; ++i) {
    facts.processes->push_back({i, "big", int64_t{6} << 30, false});
  }
  const std::string found = FindingOf(facts, "memory.programs").found;
  EXPECT_EQ(std::count(found.begin(), found.end(), '('), 5) << found;
}

}  // namespace
}  // namespace mpsd::doctor
