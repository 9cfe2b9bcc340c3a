// SPDX-License-Identifier: Apache-2.0
#include "server/planner/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/base/text.h"
#include "server/planner/texts.h"
#include "tests/server/planner/fake_machine.h"

namespace mpsd::doctor {
namespace {

TEST(Texts, OfOthersAreCutAndEscapedNumbersAreForPeople) {
  EXPECT_EQ(Foreign("WindowServer"), "WindowServer");
  EXPECT_EQ(Foreign("a\x1b[2Jb\n"), "a\\x1b[2Jb\\n");
  EXPECT_EQ(Foreign("\xff"), "\\xff");
  const std::string cut = Foreign(std::string(1 << 20, '\x1b'));
  EXPECT_LE(cut.size(), 256u);
  EXPECT_TRUE(base::IsPrintable(cut));
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(999'900), "1.0 MB");
  EXPECT_EQ(BytesText(51.5e9), "51.5 GB");
  EXPECT_EQ(BytesText(4e18), "4000.0 PB");
  EXPECT_EQ(AgeText(absl::Seconds(42)), "42 s");
  EXPECT_EQ(AgeText(absl::Minutes(3)), "3 min");
  EXPECT_EQ(AgeText(absl::Hours(5)), "5 h");
  EXPECT_EQ(AgeText(absl::Hours(24 * 12)), "12 days");
  // The clock was set back.
  EXPECT_EQ(AgeText(-absl::Hours(5)), "0 s");
  EXPECT_EQ(PercentText(0.621), "62 %");
}

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

Variable Find(const Facts& facts, const std::string& name) {
  for (const Variable& variable : CompareEnvironments(facts)) {
    if (variable.name == name) return variable;
  }
  ADD_FAILURE() << name << " is not in the table";
  return {};
}

TEST(EnvironmentTable, HasTheThreeSideBySide) {
  Facts facts = HealthyMac();
  facts.service.environment["OMP_NUM_THREADS"] = "8";
  facts.daemon_environment["OMP_NUM_THREADS"] = "4";
  facts.daemon_environment["HOME"] = "/srv/ann";
  facts.expected_environment["OMP_NUM_THREADS"] = "4";
  facts.worker.environment["OMP_NUM_THREADS"] = "4";
  EXPECT_EQ(CompareEnvironments(facts).size(), 2u);  // not HOME, not PATH
  const Variable threads = Find(facts, "OMP_NUM_THREADS");
  EXPECT_EQ(threads.service, "8");
  EXPECT_EQ(threads.daemon, "4");
  EXPECT_EQ(threads.expected, "4");
  EXPECT_EQ(threads.worker, "4");
  EXPECT_NE(threads.drift, "");
  const Variable policy = Find(facts, "OMP_WAIT_POLICY");
  EXPECT_EQ(policy.service, std::nullopt);
  EXPECT_EQ(policy.drift, "");
}

// mpsd.toml is as curated as the plist.
TEST(EnvironmentTable, WhatMpsdTomlNamesIsNoDrift) {
  Facts facts = HealthyMac();
  facts.service.environment["OMP_NUM_THREADS"] = "8";
  facts.configured = {{"OMP_NUM_THREADS", "4"}, {"HF_HOME", "/srv/hf"}};
  facts.daemon_environment = facts.configured;
  EXPECT_EQ(Find(facts, "OMP_NUM_THREADS").service, "4");
  EXPECT_EQ(Find(facts, "OMP_NUM_THREADS").drift, "");
  EXPECT_EQ(Find(facts, "HF_HOME").drift, "");
  facts.daemon_environment["HF_HOME"] = "/tmp";
  EXPECT_NE(Find(facts, "HF_HOME").drift, "");
}

TEST(EnvironmentTable, ShowsNoSecret) {
  Facts facts = HealthyMac();
  facts.daemon_environment["HF_TOKEN"] = "hf_abc";
  facts.service.environment["HF_TOKEN"] = "hf_def";
  facts.expected_environment["HF_ENDPOINT"] = "https://ann:pw@hub";
  facts.worker.environment["HF_ENDPOINT"] = "set";
  const Variable token = Find(facts, "HF_TOKEN");
  EXPECT_EQ(token.daemon, "set");
  EXPECT_EQ(token.service, "set");
  // They are two secrets: that much is told.
  EXPECT_NE(token.drift, "");
  EXPECT_EQ(Find(facts, "HF_ENDPOINT").expected, "set");
  EXPECT_EQ(Find(facts, "HF_ENDPOINT").drift, "");
}

// The worker escapes what it tells: bytes that are no text are no drift.
TEST(EnvironmentTable, AnyBytesAreComparedAndEscaped) {
  Facts facts = HealthyMac();
  const std::string evil = "\x1b]0;x\a\xff";
  facts.expected_environment["LC_ALL"] = evil;
  facts.worker.environment["LC_ALL"] = base::Printable(evil);
  EXPECT_EQ(Find(facts, "LC_ALL").drift, "");
  EXPECT_TRUE(base::IsPrintable(*Find(facts, "LC_ALL").expected));
}

TEST(EnvironmentTable, AFloodLeavesNoDriftOut) {
  Facts facts = HealthyMac();
  for (int i = 0; i < 1000; ++i) {
    facts.worker.environment["LD_A" + std::to_string(i)] = "1";
    facts.expected_environment["LD_A" + std::to_string(i)] = "1";
  }
  facts.worker.environment["LD_Z"] = "1";
  const std::vector<Variable> table = CompareEnvironments(facts);
  EXPECT_EQ(table.size(), 100u);
  EXPECT_TRUE(std::any_of(table.begin(), table.end(), [](const Variable& v) {
    return v.name == "LD_Z" && !v.drift.empty();
  }));
}

}  // namespace
}  // namespace mpsd::doctor
