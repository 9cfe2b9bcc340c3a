// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {
namespace {

// --- job kind ----------------------------------------------------------------

TEST(JobKind, EveryKindHasANameAndANumberOfItsOwn) {
  std::set<std::string> names;
  for (JobKind kind : kAllJobKinds) {
    EXPECT_NE(Name(kind), "unknown");
    EXPECT_TRUE(names.insert(std::string(Name(kind))).second) << Name(kind);
    EXPECT_EQ(report::Numbered(kJobKinds, static_cast<int64_t>(kind)), kind);
  }
}

// Rows and clients of earlier versions have it.
TEST(JobKind, TheNumbersAreKept) {
  EXPECT_EQ(report::Numbered(kJobKinds, 1), JobKind::kTraining);
  EXPECT_EQ(report::Numbered(kJobKinds, 6), JobKind::kSmoke);
  EXPECT_EQ(report::Numbered(kJobKinds, 7), std::nullopt) << "it was one";
}

TEST(JobKind, OtherNumbersAreNone) {
  EXPECT_EQ(report::Numbered(kJobKinds, 0), std::nullopt);
  EXPECT_EQ(report::Numbered(kJobKinds, 99), std::nullopt);
  EXPECT_EQ(Name(static_cast<JobKind>(99)), "unknown");
}

// --- job ---------------------------------------------------------------------

// The arrows of job.h, once more and by hand.
bool Expected(State from, State to) {
  switch (from) {
    case State::kQueued:
      return to == State::kRunning || to == State::kCancelled ||
             to == State::kFailed;
    case State::kRunning:
      return to != State::kRunning;
    case State::kSucceeded:
    case State::kFailed:
    case State::kCancelled:
      return to == State::kQueued;
    default:
      return false;
  }
}

class TransitionTest : public testing::TestWithParam<std::tuple<State, State>> {
};

TEST_P(TransitionTest, FollowsTheArrows) {
  const auto [from, to] = GetParam();
  EXPECT_EQ(CanTransition(from, to), Expected(from, to))
      << Name(from) << " -> " << Name(to);
}

INSTANTIATE_TEST_SUITE_P(AllPairs, TransitionTest,
                         testing::Combine(testing::ValuesIn(kAllStates),
                                          testing::ValuesIn(kAllStates)));

TEST(State, FinalIsWhatNoJobLeavesByItself) {
  EXPECT_FALSE(IsFinal(State::kQueued));
  EXPECT_FALSE(IsFinal(State::kRunning));
  EXPECT_TRUE(IsFinal(State::kSucceeded));
  EXPECT_TRUE(IsFinal(State::kFailed));
  EXPECT_TRUE(IsFinal(State::kCancelled));
}

TEST(State, NumbersAndNamesAreStored) {
  const std::pair<int, const char*> stored[] = {{1, "QUEUED"},
                                                {2, "RUNNING"},
                                                {3, "SUCCEEDED"},
                                                {4, "FAILED"},
                                                {5, "CANCELLED"}};
  for (const auto& [number, name] : stored) {
    EXPECT_EQ(Name(static_cast<State>(number)), name);
  }
}

TEST(ExitReason, NamesDiffer) {
  std::set<std::string_view> names;
  for (ExitReason reason : kAllExitReasons) {
    names.insert(Name(reason));
  }
  EXPECT_EQ(names.size(), std::size(kAllExitReasons));
  EXPECT_TRUE(names.contains("OutOfMemory"));
  EXPECT_TRUE(names.contains("ProtocolError"));
  EXPECT_FALSE(names.contains("unknown"));
}

// --- hold --------------------------------------------------------------------

TEST(HoldReason, NamesDiffer) {
  std::set<std::string_view> names;
  for (HoldReason reason : kAllHoldReasons) names.insert(Name(reason));
  EXPECT_EQ(names.size(), std::size(kAllHoldReasons));
}

}  // namespace
}  // namespace mpsd::jobs
