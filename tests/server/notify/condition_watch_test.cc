// SPDX-License-Identifier: Apache-2.0
#include "server/notify/condition_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::notify {
namespace {

using Change = SettledCondition::Change;
using jobs::HoldReason;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kSettle = absl::Seconds(60);

TEST(SettledConditionTest, IsToldOnceItHasLastedAndOnceItIsOver) {
  SettledCondition condition;
  EXPECT_EQ(condition.Observe(false, absl::Seconds(0), kSettle), Change::kNone);
  EXPECT_EQ(condition.Observe(true, absl::Seconds(10), kSettle), Change::kNone);
  EXPECT_EQ(condition.Observe(true, absl::Seconds(69), kSettle), Change::kNone);
  EXPECT_EQ(condition.Observe(true, absl::Seconds(70), kSettle),
            Change::kBegan);
  EXPECT_EQ(condition.Observe(true, absl::Seconds(99), kSettle), Change::kNone);
  EXPECT_EQ(condition.Observe(false, absl::Seconds(100), kSettle),
            Change::kNone);
  EXPECT_EQ(condition.Observe(false, absl::Seconds(160), kSettle),
            Change::kEnded);
}

TEST(SettledConditionTest, WhatComesAndGoesIsToldNeitherWay) {
  SettledCondition condition;
  absl::Duration now;
  for (int i = 0; i < 100; ++i, now += absl::Seconds(30)) {
    EXPECT_EQ(condition.Observe(i % 2 == 1, now, kSettle), Change::kNone);
  }
  // A fault that is gone for the moment of each try is one that lasts.
  for (int i = 0; i < 3; ++i, now += absl::Seconds(61)) {
    const Change expected = i == 1 ? Change::kBegan : Change::kNone;
    EXPECT_EQ(condition.Observe(true, now, kSettle), expected);
  }
  for (int i = 0; i < 20; ++i, now += absl::Seconds(61)) {
    EXPECT_EQ(condition.Observe(false, now, kSettle), Change::kNone);
    EXPECT_EQ(condition.Observe(true, now + absl::Seconds(1), kSettle),
              Change::kNone);
  }
}

TEST(ConditionWatchTest, TellsEachHoldWithItsText) {
  ConditionWatch watch;
  const ConditionWatch::Limits limits{0, absl::ZeroDuration()};
  auto changes = watch.Observe(
      {{{HoldReason::kDisk, "full"}, {HoldReason::kDevice, "broken"}}, {}},
      limits, absl::Seconds(1));
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].hold, HoldReason::kDisk);
  EXPECT_TRUE(changes[0].began);
  EXPECT_EQ(changes[0].why, "full");
  EXPECT_EQ(changes[1].why, "broken");
  changes = watch.Observe({{{HoldReason::kDevice, "still broken"}}, {}}, limits,
                          absl::Seconds(2));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].hold, HoldReason::kDisk);
  EXPECT_FALSE(changes[0].began);
  EXPECT_EQ(changes[0].why, "");
}

TEST(ConditionWatchTest, TellsTheLatestTextOfAHold) {
  ConditionWatch watch;
  const ConditionWatch::Limits limits{0, kSettle};
  watch.Observe({{{HoldReason::kDisk, "first"}}, {}}, limits, absl::Seconds(0));
  EXPECT_EQ(watch
                .Observe({{{HoldReason::kDisk, "second"}}, {}}, limits,
                         absl::Seconds(60))
                .at(0)
                .why,
            "second");
}

TEST(ConditionWatchTest, FollowsTheDisk) {
  ConditionWatch watch;
  const ConditionWatch::Limits limits{100, absl::ZeroDuration()};
  EXPECT_THAT(watch.Observe({{}, 100}, limits, absl::Seconds(0)), IsEmpty());
  auto changes = watch.Observe({{}, 99}, limits, absl::Seconds(1));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_FALSE(changes[0].hold.has_value());
  EXPECT_TRUE(changes[0].began);
  EXPECT_EQ(changes[0].free_bytes, 99);
  // A disk that cannot be looked at says nothing.
  EXPECT_THAT(watch.Observe({{}, {}}, limits, absl::Seconds(2)), IsEmpty());
  changes = watch.Observe({{}, 100}, limits, absl::Seconds(3));
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_FALSE(changes[0].began);
}

}  // namespace
}  // namespace mpsd::notify
