// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mpsd::study {
namespace {

// The kinds of a plan's steps: w, p, or x under the profiler; "|" ends a
// session.
std::string Drawn(ProfilePlan plan) {
  std::string drawn;
  while (const auto kind = plan.Next()) {
    plan.Taken();
    drawn += *kind == StepKind::kWarmUp  ? 'w'
             : *kind == StepKind::kPlain ? 'p'
                                         : 'x';
    if (*kind == StepKind::kProfiled && plan.EndsSession()) drawn += '|';
  }
  return drawn;
}

int64_t Steps(const std::string& drawn) {
  return static_cast<int64_t>(drawn.size()) -
         std::count(drawn.begin(), drawn.end(), '|');
}

TEST(ProfilePlanTest, PlainStepsComeBeforeEachSession) {
  EXPECT_EQ(Drawn({3, 7}), "wwwppxxxxx|ppxx|");
  EXPECT_EQ(Drawn({1, 1}), "wppx|");
  EXPECT_EQ(Drawn({1, 5}), "wppxxxxx|");
}

TEST(ProfilePlanTest, TheTotalIsKnownFromTheStart) {
  for (const int64_t profiled : {1, 4, 5, 6, 10, 11, 50}) {
    ProfilePlan plan(10, profiled);
    const int64_t total = Steps(Drawn(plan));
    for (int64_t i = 0; i < total; ++i) {
      EXPECT_EQ(plan.total(), total) << profiled << " at " << i;
      plan.Taken();
    }
    EXPECT_EQ(plan.total(), total);
    EXPECT_EQ(plan.Next(), std::nullopt);
  }
}

TEST(ProfilePlanTest, ManyEventsMakeShortSessions) {
  ProfilePlan plan(1, 20);
  for (int i = 0; i < 8; ++i) plan.Taken();
  ASSERT_TRUE(plan.EndsSession());
  plan.Note(5 * ProfilePlan::kSessionEvents / 2, 5);
  EXPECT_EQ(Drawn(plan), "ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppxx|ppx|");
  EXPECT_EQ(plan.total(), 8 + Steps(Drawn(plan)));
  plan.Note(100 * ProfilePlan::kSessionEvents, 1);
  EXPECT_THAT(Drawn(plan), testing::StartsWith("ppx|ppx|"));
}

}  // namespace
}  // namespace mpsd::study
