// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/pause_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/status_matchers.h"

namespace mpsd::jobs {
namespace {

using host::MemoryPressure;
using host::PowerSource;
using host::Thermal;

bool QuietAt(const char* hours, int hour, int minute,
             absl::TimeZone zone = absl::UTCTimeZone()) {
  const absl::Time now = absl::FromCivil(
      absl::CivilMinute(2026, 1, 2, hour, minute), absl::UTCTimeZone());
  return IsQuiet(*ParseQuietHours(hours), now, zone);
}

TEST(ParseQuietHours, ReadsTwoTimes) {
  EXPECT_EQ(*ParseQuietHours("22:00-07:30"), (QuietHours{1320, 450}));
  EXPECT_EQ(*ParseQuietHours("00:00-23:59"), (QuietHours{0, 1439}));
  EXPECT_EQ(ToString(*ParseQuietHours("22:00-07:05")), "22:00-07:05");
}

TEST(ParseQuietHours, RefusesEverythingElse) {
  for (const char* text :
       {"", "22:00", "22-7", "24:00-07:00", "22:60-07:00", "22:00-07:00 ",
        "2:00-07:00", "22:00-22:00", "ab:cd-ef:gh", "22:00-07:00-08:00"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseQuietHours(text).status()))
        << text;
  }
}

TEST(IsQuiet, FromTheFirstMinuteUntilBeforeTheLast) {
  EXPECT_FALSE(QuietAt("09:00-17:00", 8, 59));
  EXPECT_TRUE(QuietAt("09:00-17:00", 9, 0));
  EXPECT_TRUE(QuietAt("09:00-17:00", 16, 59));
  EXPECT_FALSE(QuietAt("09:00-17:00", 17, 0));
  // Around midnight.
  EXPECT_FALSE(QuietAt("22:00-07:00", 21, 59));
  EXPECT_TRUE(QuietAt("22:00-07:00", 22, 0));
  EXPECT_TRUE(QuietAt("22:00-07:00", 0, 0));
  EXPECT_TRUE(QuietAt("22:00-07:00", 6, 59));
  EXPECT_FALSE(QuietAt("22:00-07:00", 7, 0));
  EXPECT_FALSE(QuietAt("22:00-07:00", 12, 0));
  // By the clock on the wall.
  const absl::TimeZone east = absl::FixedTimeZone(3 * 3600);
  EXPECT_TRUE(QuietAt("22:00-07:00", 19, 0, east));
  EXPECT_FALSE(QuietAt("22:00-07:00", 4, 0, east));
}

class PauseGateTest : public testing::Test {
 protected:
  PauseGateTest() { policy_.zone = absl::UTCTimeZone(); }

  // What holds after `later`.
  const PauseReasons& After(absl::Duration later) {
    if (!gate_) gate_.emplace(policy_);
    elapsed_ += later;
    gate_->Observe(reading_, start_ + elapsed_, elapsed_);
    return gate_->reasons();
  }
  const PauseReasons& Now() { return After(absl::ZeroDuration()); }

  PausePolicy policy_;
  host::Reading reading_;
  absl::Time start_ = absl::FromCivil(absl::CivilMinute(2026, 1, 2, 12, 0),
                                      absl::UTCTimeZone());
  absl::Duration elapsed_;
  std::optional<PauseGate> gate_;
};

TEST_F(PauseGateTest, WhatIsUnknownIsNoReason) {
  policy_.on_battery = true;
  policy_.thermal = Thermal::kNominal;
  policy_.memory_pressure = MemoryPressure::kNormal;
  policy_.idle_only = absl::Minutes(5);
  EXPECT_THAT(Now(), IsEmpty());
  EXPECT_THAT(
      gate_->Unobservable(reading_),
      ElementsAre(PauseReason::kBattery, PauseReason::kThermal,
                  PauseReason::kMemoryPressure, PauseReason::kUserActive));
  reading_.low_power_mode = false;
  reading_.thermal = Thermal::kNominal;
  reading_.memory_pressure = MemoryPressure::kNormal;
  reading_.user_idle_seconds = 0;
  EXPECT_THAT(gate_->Unobservable(reading_), IsEmpty());
}

TEST_F(PauseGateTest, BatteryAndLowPowerMode) {
  policy_.on_battery = true;
  reading_.power_source = PowerSource::kMains;
  EXPECT_THAT(Now(), IsEmpty());
  reading_.low_power_mode = true;
  EXPECT_THAT(Now(), ElementsAre(PauseReason::kBattery));
  reading_.low_power_mode = false;
  reading_.power_source = PowerSource::kBattery;
  EXPECT_THAT(After(absl::Minutes(5)), ElementsAre(PauseReason::kBattery));
}

TEST_F(PauseGateTest, LevelsCountFromTheirLimitOn) {
  policy_.thermal = Thermal::kHeavy;
  policy_.memory_pressure = MemoryPressure::kCritical;
  reading_.thermal = Thermal::kModerate;
  reading_.memory_pressure = MemoryPressure::kWarn;
  EXPECT_THAT(Now(), IsEmpty());
  reading_.thermal = Thermal::kTrapping;
  reading_.memory_pressure = MemoryPressure::kCritical;
  EXPECT_THAT(Now(),
              ElementsAre(PauseReason::kThermal, PauseReason::kMemoryPressure));
  EXPECT_EQ(Describe(gate_->reasons()), "too hot, short of memory");
}

TEST_F(PauseGateTest, ResumingWaitsUntilThingsHaveSettled) {
  policy_.on_battery = true;
  policy_.settle = absl::Seconds(30);
  reading_.power_source = PowerSource::kBattery;
  EXPECT_THAT(Now(), ElementsAre(PauseReason::kBattery));
  reading_.power_source = PowerSource::kMains;
  EXPECT_THAT(After(absl::Seconds(29)), ElementsAre(PauseReason::kBattery));
  reading_.power_source = PowerSource::kBattery;
  After(absl::ZeroDuration());
  reading_.power_source = PowerSource::kMains;
  EXPECT_THAT(After(absl::Seconds(29)), ElementsAre(PauseReason::kBattery))
      << "from the last moment that it held";
  EXPECT_THAT(After(absl::Seconds(1)), IsEmpty());
}

TEST_F(PauseGateTest, AReasonThatKeepsComingBackTakesLongerToSettle) {
  policy_.thermal = Thermal::kHeavy;
  policy_.settle = absl::Seconds(30);
  policy_.settle_max = absl::Seconds(100);
  for (int seconds : {30, 60, 100, 100}) {
    reading_.thermal = Thermal::kHeavy;
    EXPECT_THAT(After(absl::Seconds(1)), ElementsAre(PauseReason::kThermal));
    reading_.thermal = Thermal::kNominal;
    EXPECT_THAT(After(absl::Seconds(seconds - 1)),
                ElementsAre(PauseReason::kThermal));
    EXPECT_THAT(After(absl::Seconds(1)), IsEmpty()) << seconds;
  }
  // Long after, it is as at first.
  After(absl::Hours(1));
  reading_.thermal = Thermal::kHeavy;
  After(absl::ZeroDuration());
  reading_.thermal = Thermal::kNominal;
  EXPECT_THAT(After(absl::Seconds(30)), IsEmpty());
}

TEST_F(PauseGateTest, QuietHoursBeginAndEndOnTheMinute) {
  policy_.quiet_hours = *ParseQuietHours("13:00-14:00");
  EXPECT_THAT(Now(), IsEmpty());
  EXPECT_THAT(After(absl::Minutes(60)), ElementsAre(PauseReason::kQuietHours));
  EXPECT_THAT(After(absl::Minutes(59)), ElementsAre(PauseReason::kQuietHours));
  EXPECT_THAT(After(absl::Minutes(1)), IsEmpty());
}

TEST_F(PauseGateTest, OnlyWhileTheMachineHasNoUserInput) {
  policy_.idle_only = absl::Minutes(5);
  reading_.user_idle_seconds = 299;
  EXPECT_THAT(Now(), ElementsAre(PauseReason::kUserActive));
  reading_.user_idle_seconds = 300;
  EXPECT_THAT(Now(), IsEmpty());
  reading_.user_idle_seconds = 0;
  EXPECT_THAT(Now(), ElementsAre(PauseReason::kUserActive));
}

TEST(HoldLimit, IsShortWhereMemoryIsWhatIsLacking) {
  PausePolicy policy;
  policy.hold_limit = absl::Minutes(10);
  EXPECT_EQ(HoldLimit(policy, {PauseReason::kBattery}), absl::Minutes(10));
  EXPECT_EQ(
      HoldLimit(policy, {PauseReason::kBattery, PauseReason::kMemoryPressure}),
      absl::Minutes(1));
  policy.hold_limit = absl::Seconds(5);
  EXPECT_EQ(HoldLimit(policy, {PauseReason::kMemoryPressure}),
            absl::Seconds(5));
}

}  // namespace
}  // namespace mpsd::jobs
