// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_hypotheses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/core/study/profile_samples.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Verdict;
using testing::HasSubstr;

std::vector<Finding> Of(const ProfileFacts& facts) {
  return Hypotheses(facts, {});
}

// The names of those that fit, the strongest first, without the summary.
std::vector<std::string> Fitting(const ProfileFacts& facts) {
  std::vector<std::string> names;
  for (const Finding& finding : Of(facts)) {
    if (finding.verdict != Verdict::kWarn) continue;
    EXPECT_FALSE(finding.found.empty());
    if (finding.name == "profile.hypothesis") continue;
    EXPECT_FALSE(finding.advice.empty()) << finding.name;
    names.push_back(finding.name);
  }
  return names;
}

Finding Get(const ProfileFacts& facts, const std::string& name) {
  for (const Finding& finding : Of(facts)) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << name;
  return {};
}

using Names = std::vector<std::string>;

// The control of all that follow.
TEST(ProfileHypothesesTest, NoneFitsASoundJobAndThatIsSaid) {
  EXPECT_EQ(Fitting(SoundFacts()), Names{});
  const std::vector<Finding> findings = Of(SoundFacts());
  ASSERT_EQ(findings.size(), 10u);
  EXPECT_EQ(findings[0].name, "profile.hypothesis");
  EXPECT_EQ(findings[0].verdict, Verdict::kPass);
  EXPECT_THAT(findings[0].found, HasSubstr("no hypothesis"));
  std::set<std::string> names;
  for (const Finding& finding : findings) {
    EXPECT_TRUE(names.insert(finding.name).second) << finding.name;
    EXPECT_TRUE(finding.advice.empty()) << finding.name;
    EXPECT_EQ(finding.verdict, finding.name == "profile.loss_drift"
                                   ? Verdict::kNotTold
                                   : Verdict::kPass)
        << finding.name;
  }
}

TEST(ProfileHypothesesTest, NothingIsTooLittle) {
  for (const Finding& finding : Of({})) {
    EXPECT_NE(finding.verdict, Verdict::kWarn) << finding.name;
    EXPECT_FALSE(finding.found.empty()) << finding.name;
  }
}

TEST(ProfileHypothesesTest, AStepThatWaitsForDataStarves) {
  ProfileFacts facts = SoundFacts();
  for (ProfiledStep& step : facts.steps) {
    step.progress.data_wait_seconds = 0.05;
    step.progress.seconds += 0.049;
  }
  // A fast loader that is waited for: the machine is busy with other work.
  EXPECT_EQ(Fitting(facts), Names{});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("other work"));
  facts.data_seconds = {0.15};
  EXPECT_EQ(Fitting(facts), Names{"profile.data"});
  EXPECT_THAT(Get(facts, "profile.data").found, HasSubstr("33.6 %"));
  EXPECT_EQ(Of(facts)[0].found, "fits best: profile.data");
}

TEST(ProfileHypothesesTest, AFurtherReadBackIsASyncPoint) {
  ProfileFacts facts = SoundFacts();
  facts.tally.waits["aten::_local_scalar_dense"] = {
      40, 100 * kMilli, {{"mlp", 39}, {"head", 1}}};
  EXPECT_EQ(Fitting(facts), Names{"profile.blocking"});
  const Finding finding = Get(facts, "profile.blocking");
  EXPECT_THAT(finding.found,
              HasSubstr("aten::_local_scalar_dense, 2 a step, in 'mlp'"));
  EXPECT_EQ(finding.value, 2);
}

TEST(ProfileHypothesesTest, OperatorsOnTheCpuAreNamed) {
  ProfileFacts facts = SoundFacts();
  facts.steps.back().progress.cpu_fallback_ops = {{"aten::unique", 24}};
  EXPECT_EQ(Fitting(facts), Names{"profile.fallback"});
  EXPECT_THAT(Get(facts, "profile.fallback").found,
              HasSubstr("aten::unique (24)"));
}

TEST(ProfileHypothesesTest, AKernelGapIsALayerThatIsSlowerThanItsLike) {
  ProfileFacts facts = SoundFacts();
  facts.tally.layers[2].ns[1] *= 3;
  facts.tally.layers[2].operators["aten::slow"] = 1000 * kMilli;
  EXPECT_EQ(Fitting(facts), Names{"profile.slow_layer"});
  const Finding finding = Get(facts, "profile.slow_layer");
  EXPECT_THAT(finding.found, HasSubstr("layer, 2, takes 3 times a layer's "
                                       "time backward, above all in "
                                       "aten::slow"));
  // A layer that is no part of the step to speak of is not blamed.
  for (auto& [index, cost] : facts.tally.layers) {
    for (int64_t& ns : cost.ns) ns /= 1000;
  }
  EXPECT_EQ(Fitting(facts), Names{});
  facts.tally.layers.erase(0);
  facts.tally.layers.erase(1);
  EXPECT_EQ(Get(facts, "profile.slow_layer").verdict, Verdict::kNotTold);
}

// Adapters in some layers alone: the others have no backward to compare.
TEST(ProfileHypothesesTest, LayersWithoutABackwardAreNotCompared) {
  ProfileFacts facts = SoundFacts();
  facts.tally.layers[0].ns[1] = facts.tally.layers[1].ns[1] = 0;
  EXPECT_EQ(Fitting(facts), Names{});
}

TEST(ProfileHypothesesTest, TheDevicesOwnTimesCountWhereItTellsThem) {
  ProfileFacts facts = SoundFacts();
  facts.tally.device_told = true;
  facts.tally.device_busy_ns = facts.tally.device_window_ns = kMilli;
  for (auto& [index, cost] : facts.tally.layers) {
    cost.device_ns[0] = facts.tally.steps * kMilli * (index == 1 ? 20 : 7);
  }
  EXPECT_EQ(Fitting(facts), Names{"profile.slow_layer"});
}

TEST(ProfileHypothesesTest, ADeviceThatIdlesIsSpeedupNearOne) {
  ProfileFacts facts = SoundFacts();
  for (ProfiledStep& step : facts.steps) {
    step.progress.device_utilization_ratio = 0.1;
  }
  EXPECT_EQ(Fitting(facts), Names{"profile.device_idle"});
  EXPECT_EQ(Get(facts, "profile.device_idle").threshold, 0.18);
  // What the machine does not tell, this job's kernels may.
  for (ProfiledStep& step : facts.steps) {
    step.progress.device_utilization_ratio.reset();
  }
  EXPECT_EQ(Get(facts, "profile.device_idle").verdict, Verdict::kNotTold);
  facts.tally.device_told = true;
  facts.tally.device_busy_ns = 1;
  facts.tally.device_window_ns = 10;
  EXPECT_EQ(Get(facts, "profile.device_idle").verdict, Verdict::kWarn);
}

TEST(ProfileHypothesesTest, GapsCountOnlyBesideADeviceThatIsApart) {
  ProfileFacts facts = SoundFacts();
  facts.tally.gaps.ns = facts.tally.step_ns / 2;
  EXPECT_EQ(Fitting(facts), Names{"profile.host_gaps"});
  facts.device_is_apart = false;
  EXPECT_EQ(Fitting(facts), Names{});
  EXPECT_THAT(Get(facts, "profile.host_gaps").found, HasSubstr("50 %"));
}

TEST(ProfileHypothesesTest, AFastStartThenACliffIsCachePressure) {
  ProfileFacts facts = SoundFacts();
  for (size_t i = facts.steps.size() - 12; i < facts.steps.size(); ++i) {
    facts.steps[i].progress.seconds *= 2;
  }
  EXPECT_EQ(Fitting(facts), Names{"profile.cliff"});
  // Longer rows are no cliff.
  for (size_t i = facts.steps.size() - 12; i < facts.steps.size(); ++i) {
    facts.steps[i].progress.padded_tokens = 2000;
  }
  EXPECT_EQ(Fitting(facts), Names{});
}

TEST(ProfileHypothesesTest, GrowingMemoryEndsAsOutOfMemory) {
  ProfileFacts facts = SoundFacts();
  int64_t bytes = 1000;
  for (ProfiledStep& step : facts.steps) {
    step.progress.memory.current_allocated_bytes = bytes += 100;
  }
  EXPECT_EQ(Fitting(facts), Names{"profile.memory"});
}

TEST(ProfileHypothesesTest, TheStrongestComesFirst) {
  ProfileFacts facts = SoundFacts();
  facts.steps.back().progress.cpu_fallback_ops = {{"aten::mul", 24}};
  facts.tally.waits["aten::nonzero"] = {20, 600 * kMilli, {{"head", 20}}};
  EXPECT_EQ(Fitting(facts), (Names{"profile.blocking", "profile.fallback"}));
  facts.tally.operators["aten::mul"].self_ns *= 10;
  EXPECT_EQ(Fitting(facts), (Names{"profile.fallback", "profile.blocking"}));
  EXPECT_EQ(Of(facts)[0].found,
            "fits best: profile.fallback; fits too: profile.blocking");
}

TEST(ProfileHypothesesTest, ARequestsThresholdsDecide) {
  ProfileFacts facts = SoundFacts();
  const auto thresholds = runbook::Thresholds::FromMap(
      {{"profile.data_share", 0.001}, {"profile.slow_layer", 1}});
  ASSERT_TRUE(thresholds.ok());
  for (const Finding& finding : Hypotheses(facts, *thresholds)) {
    if (finding.name != "profile.data") continue;
    EXPECT_EQ(finding.verdict, Verdict::kWarn);
    EXPECT_EQ(finding.threshold, 0.001);
  }
}

}  // namespace
}  // namespace mpsd::study
