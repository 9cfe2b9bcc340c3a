// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/base/printable.h"
#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

using runbook::Verdict;
using testing::IsEmpty;

TEST(Judge, AHealthyMachineHasNoWarning) {
  EXPECT_THAT(Wrong(HealthyMac()), IsEmpty());
  EXPECT_THAT(Wrong(HealthyLinux()), IsEmpty());
  for (const runbook::Finding& finding : Judge(HealthyMac(), {})) {
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name;
    EXPECT_EQ(finding.advice, "") << finding.name;
    EXPECT_NE(finding.found, "") << finding.name;
  }
}

// Never a made-up value: a machine that says nothing is neither good nor bad.
TEST(Judge, AMachineThatTellsNothingIsNotTold) {
  Facts facts;
  facts.mounts = {{"state", "/srv/mpsd", std::nullopt}};
  std::set<std::string> told;
  for (const runbook::Finding& finding : Judge(facts, {})) {
    EXPECT_LE(finding.verdict, Verdict::kPass) << finding.name;
    if (finding.verdict == Verdict::kPass) told.insert(finding.name);
  }
  // Without a limit nothing is limited.
  EXPECT_EQ(told,
            (std::set<std::string>{"limits.descriptors", "limits.processes",
                                   "environment.harmful"}));
}

TEST(Judge, ARequestsThresholdsCount) {
  const auto strict = runbook::Thresholds::FromMap(
      {{"doctor.disk_free", 1e12}, {"doctor.gpu_busy", 0.01}});
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(Wrong(HealthyMac(), *strict),
            (std::map<std::string, Verdict>{{"disk.free", kWarn},
                                            {"gpu.programs", kWarn}}));
}

TEST(Judge, AFigureComesWithWhatItWasComparedWithAndItsUnit) {
  for (const Facts& facts : {HealthyMac(), HealthyLinux()}) {
    for (const runbook::Finding& finding : Judge(facts, {})) {
      EXPECT_EQ(finding.value.has_value(), finding.threshold.has_value());
      EXPECT_EQ(finding.value.has_value(), finding.unit != "") << finding.name;
    }
  }
}

// Names of programs, files and variables are what their authors chose.
TEST(Judge, NoNameSteersATerminal) {
  const std::string evil =
      "\x1b]0;PWNED\a\x1b[2J\n\r\xff\xe2\x80\xae" + std::string(5000, 'x');
  Facts facts = HealthyMac();
  facts.processes = {{7, evil, int64_t{40} << 30, true}};
  facts.host.gpu_utilization_ratio = 0.9;
  facts.mounts[1].folder = evil;
  facts.mounts[1].mount = host::Mount{evil, evil, evil, true, false};
  facts.service.file = evil;
  facts.service.runs_mpsd = false;
  facts.worker.environment["LD_" + evil] = evil;
  facts.expected_environment["LD_" + evil] = "other";
  facts.worker.environment["LD_PRELOAD"] = evil;
  facts.expected_environment["LD_PRELOAD"] = evil;
  const auto wrong = Wrong(facts);
  EXPECT_EQ(wrong.size(), 6u);
  for (const runbook::Finding& finding : Judge(facts, {})) {
    EXPECT_TRUE(base::IsPrintable(finding.found)) << finding.name;
    EXPECT_LE(finding.found.size(), 2000u) << finding.name;
  }
}

}  // namespace
}  // namespace mpsd::doctor
