// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/environment_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/printable.h"
#include "tests/server/doctor/fake_machine.h"

namespace mpsd::doctor {
namespace {

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
