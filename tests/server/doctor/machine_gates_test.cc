// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

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

}  // namespace
}  // namespace mpsd::doctor
