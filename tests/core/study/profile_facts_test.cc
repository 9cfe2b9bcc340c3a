// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/study/profile_samples.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Verdict;
using testing::HasSubstr;

TEST(ProfileFactsTest, MedianAndMean) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Mean({}), 0);
  EXPECT_EQ(Mean({1, 2, 6}), 3);
}

TEST(ProfileFactsTest, ASteadyStepIsPlainWorkAndTheWaitBesideIt) {
  ProfileFacts facts = SoundFacts();
  EXPECT_NEAR(facts.StepSeconds(), 0.1, 1e-9);
  EXPECT_NEAR(facts.DataWaitSeconds(), 0.001, 1e-9);
  EXPECT_NEAR(facts.Overhead(), 0.109 / 0.099 - 1, 1e-9);
  // The plain steps find data that were made while the profiler's events were
  // worked up.
  for (ProfiledStep& step : facts.steps) {
    if (step.kind != StepKind::kProfiled) continue;
    step.progress.data_wait_seconds = 0.05;
    step.progress.seconds += 0.049;
  }
  EXPECT_NEAR(facts.StepSeconds(), 0.099 + 0.05, 1e-9);
}

TEST(ProfileFactsTest, MemoryGrowsFromTheFirstSteadyStepsToTheLast) {
  ProfileFacts facts = SoundFacts();
  EXPECT_EQ(facts.MemoryGrowth(), 0);
  int64_t bytes = 1000;
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.current_allocated_bytes = bytes += 100;
  }
  EXPECT_GT(*facts.MemoryGrowth(), 0.5);
  // The process' memory has the profiler's own.
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.current_allocated_bytes.reset();
  }
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.footprint_bytes = bytes += 1000;
  }
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
  facts = SoundFacts();
  facts.steps.resize(10);
  EXPECT_EQ(facts.MemoryGrowth(), std::nullopt);
}

TEST(ProfileFactsTest, WhatIsNotToldStaysSo) {
  ProfileFacts facts;
  EXPECT_EQ(facts.Utilization(), std::nullopt);
  EXPECT_TRUE(facts.fallbacks().empty());
  EXPECT_EQ(facts.Overhead(), 0);
  EXPECT_EQ(facts.StepSeconds(), 0);
  facts = SoundFacts();
  EXPECT_NEAR(*facts.Utilization(), 0.9, 1e-9);
  facts.steps.back().progress.cpu_fallback_ops["aten::x"] = 3;
  EXPECT_EQ(facts.fallbacks().at("aten::x"), 3);
}

// The names of the findings that warn.
std::vector<std::string> Warnings(const ProfileFacts& facts,
                                  const runbook::Thresholds& thresholds = {}) {
  std::vector<std::string> names;
  for (const Finding& finding : FindingsOf(facts, thresholds)) {
    EXPECT_FALSE(finding.found.empty()) << finding.name;
    EXPECT_EQ(finding.advice.empty(), finding.verdict != Verdict::kWarn);
    if (finding.verdict == Verdict::kWarn) names.push_back(finding.name);
  }
  return names;
}

Finding Get(const ProfileFacts& facts, const std::string& name) {
  for (const Finding& finding : FindingsOf(facts, {})) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << name;
  return {};
}

using Names = std::vector<std::string>;

// The control of all that follow.
TEST(ProfileFindingsTest, ASoundJobHasNone) {
  EXPECT_EQ(Warnings(SoundFacts()), Names{});
  EXPECT_EQ(Warnings({}), Names{});
  const std::vector<Finding> findings = FindingsOf(SoundFacts(), {});
  ASSERT_EQ(findings.size(), 3u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kPass) << finding.name;
  }
}

TEST(ProfileFindingsTest, AStepThatWaitsForDataStarves) {
  ProfileFacts facts = SoundFacts();
  for (ProfiledStep& step : facts.steps) {
    step.progress.data_wait_seconds = 0.05;
    step.progress.seconds += 0.049;
  }
  // A fast loader that is waited for: the machine is busy with other work.
  EXPECT_EQ(Warnings(facts), Names{});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("other work"));
  facts.data_seconds = {0.15};
  EXPECT_EQ(Warnings(facts), Names{"profile.data"});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("33.6 %"));
}

TEST(ProfileFindingsTest, AFurtherReadBackIsASyncPoint) {
  ProfileFacts facts = SoundFacts();
  facts.tally.waits["aten::_local_scalar_dense"] = {
      40, 100 * kMilli, {{"mlp", 39}, {"head", 1}}};
  EXPECT_EQ(Warnings(facts), Names{"profile.blocking"});
  const Finding finding = Get(facts, "profile.blocking");
  EXPECT_THAT(finding.found,
              HasSubstr("aten::_local_scalar_dense, 2 a step, in 'mlp'"));
  EXPECT_EQ(finding.value, 2);
}

TEST(ProfileFindingsTest, OperatorsOnTheCpuAreNamed) {
  ProfileFacts facts = SoundFacts();
  facts.steps.back().progress.cpu_fallback_ops = {{"aten::unique", 24}};
  EXPECT_EQ(Warnings(facts), Names{"profile.fallback"});
  EXPECT_THAT(Get(facts, "profile.fallback").found,
              HasSubstr("aten::unique (24)"));
}

TEST(ProfileFindingsTest, ARequestsThresholdsDecide) {
  const auto thresholds =
      runbook::Thresholds::FromMap({{"profile.data_share", 0.001}});
  ASSERT_TRUE(thresholds.ok());
  EXPECT_EQ(Warnings(SoundFacts(), *thresholds), Names{"profile.data"});
  EXPECT_EQ(FindingsOf(SoundFacts(), *thresholds)[0].threshold, 0.001);
}

}  // namespace
}  // namespace mpsd::study
