// SPDX-License-Identifier: Apache-2.0
#include "server/store/job.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/base/limits.h"
#include "core/base/text.h"
#include "server/jobs/pause_gate.h"
#include "server/store/job_store.h"
#include "tests/fakes/fake_clock.h"

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
  EXPECT_EQ(report::Numbered(kJobKinds, 8), JobKind::kGenerate);
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

class JobIdTest : public testing::Test {
 protected:
  fakes::FakeClock clock_;
  uint64_t random_ = 0;
  JobIdGenerator ids_{clock_, [this] { return random_; }};
};

TEST_F(JobIdTest, EncodesTimeAndRandomness) {
  // 1767225600000 ms in base 32; all random bits 0, then all 1.
  EXPECT_EQ(ids_.Next(),
            "01KDVDNA00"
            "0000000000000000");
  clock_.Advance(absl::Milliseconds(1));
  random_ = ~uint64_t{0};
  EXPECT_EQ(ids_.Next(),
            "01KDVDNA01"
            "ZZZZZZZZZZZZZZZZ");
}

TEST_F(JobIdTest, GrowsWithinAMillisecond) {
  random_ = (uint64_t{1} << 40) - 2;
  std::string last = ids_.Next();
  for (int i = 0; i < 100; ++i) {
    const std::string next = ids_.Next();
    EXPECT_LT(last, next);
    last = next;
  }
}

TEST_F(JobIdTest, CarriesIntoTheMillisecondsWhenTheBitsAreUsedUp) {
  random_ = ~uint64_t{0};
  const std::string first = ids_.Next();
  const std::string second = ids_.Next();
  EXPECT_EQ(second,
            "01KDVDNA01"
            "0000000000000000");
  EXPECT_LT(first, second);
}

TEST_F(JobIdTest, GrowsWhenTheClockStepsBack) {
  const std::string first = ids_.Next();
  clock_.Advance(-absl::Hours(1));
  EXPECT_LT(first, ids_.Next());
}

TEST_F(JobIdTest, KnowsItsOwn) {
  EXPECT_TRUE(IsJobId(ids_.Next()));
  EXPECT_FALSE(IsJobId(""));
  EXPECT_FALSE(IsJobId("../../etc/passwd/../../../"));
  EXPECT_FALSE(IsJobId("01kdvdna000000000000000000"));
  EXPECT_FALSE(IsJobId("01KDVDNA0000000000000000000"));
  EXPECT_FALSE(IsJobId("01KDVDNA00000000000000000U"));
}

// A summary's name may be cut; its place is that of the whole name.
TEST(PlaceOf, ACutNameHasTheSamePlace) {
  for (const char* character : {"n", "é", "感", "😀"}) {
    Job whole;
    for (int i = 0; i < 200; ++i) whole.name += character;
    Job cut = whole;
    cut.name = base::Shortened(cut.name, limits::kNameBytes);
    const ListPlace place = PlaceOf(whole, ListOrder::kName);
    EXPECT_EQ(PlaceOf(cut, ListOrder::kName), place);
    EXPECT_EQ(std::get<std::string>(place.value).size(),
              kOrderedCharacters * std::string(character).size());
  }
}

}  // namespace
}  // namespace mpsd::jobs
