// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_facts.h"

#include <gtest/gtest.h>

#include "tests/core/study/profile_samples.h"

namespace mpsd::study {
namespace {

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

}  // namespace
}  // namespace mpsd::study
