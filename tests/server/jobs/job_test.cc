// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job.h"

#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {
namespace {

TEST(JobKind, EveryKindHasANameAndANumberOfItsOwn) {
  std::set<std::string> names;
  for (JobKind kind : kAllJobKinds) {
    EXPECT_NE(Name(kind), "unknown");
    EXPECT_TRUE(names.insert(std::string(Name(kind))).second) << Name(kind);
    EXPECT_EQ(report::Numbered(kJobKinds, static_cast<int64_t>(kind)), kind);
  }
}

// Rows and clients of earlier versions have them.
TEST(JobKind, TheNumbersAreKept) {
  EXPECT_EQ(report::Numbered(kJobKinds, 1), JobKind::kTraining);
  EXPECT_EQ(report::Numbered(kJobKinds, 6), JobKind::kSmoke);
  for (const int64_t number : {0, 7, 99}) {  // 7 was one
    EXPECT_EQ(report::Numbered(kJobKinds, number), std::nullopt);
  }
  EXPECT_EQ(Name(static_cast<JobKind>(99)), "unknown");
}

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

TEST(State, ChangesAlongTheArrows) {
  for (const State from : kAllStates) {
    for (const State to : kAllStates) {
      EXPECT_EQ(CanTransition(from, to), Expected(from, to))
          << Name(from) << " -> " << Name(to);
    }
  }
}

TEST(State, FinalIsWhatNoJobLeavesByItself) {
  for (const State state : kAllStates) {
    EXPECT_EQ(IsFinal(state),
              state != State::kQueued && state != State::kRunning);
  }
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

TEST(HoldReason, NamesDiffer) {
  std::set<std::string_view> names;
  for (HoldReason reason : kAllHoldReasons) names.insert(Name(reason));
  EXPECT_EQ(names.size(), std::size(kAllHoldReasons));
}

}  // namespace
}  // namespace mpsd::jobs
