// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/sum_attempts.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::logbook {
namespace {

using ::testing::ElementsAre;

TEST(SumAttempts, NoAttemptTellsNothing) {
  v1::Record record;
  SumAttempts({}, record);
  EXPECT_FALSE(record.has_conditions());
  EXPECT_FALSE(record.has_pauses());
  EXPECT_FALSE(record.durations().has_queue_seconds());
}

TEST(SumAttempts, AddsUp) {
  v1::RunAttempt first, second;
  first.mutable_conditions()->set_readings(3);
  first.mutable_conditions()->add_power_sources("mains");
  first.mutable_conditions()->set_first_swap_bytes(10);
  first.mutable_conditions()->set_most_swap_bytes(50);
  first.mutable_conditions()->set_low_power_mode(true);
  first.mutable_conditions()->set_gpu_utilization_ratio(0.2);
  first.mutable_conditions()->set_user_active_seconds(5);
  first.mutable_pauses()->set_count(1);
  first.mutable_pauses()->set_seconds(7);
  (*first.mutable_pauses()->mutable_seconds_by_reason())["battery"] = 7;
  first.mutable_durations()->set_queue_seconds(4);
  first.mutable_durations()->set_load_seconds(2);
  first.mutable_durations()->set_evaluation_seconds(1);
  second = first;
  second.mutable_conditions()->set_readings(1);
  second.mutable_conditions()->set_power_sources(0, "battery");
  second.mutable_conditions()->set_first_swap_bytes(70);
  second.mutable_conditions()->set_most_swap_bytes(70);
  second.mutable_conditions()->set_low_power_mode(false);
  second.mutable_conditions()->set_gpu_utilization_ratio(0.6);
  second.mutable_durations()->set_queue_seconds(400);
  second.mutable_durations()->set_load_seconds(3);
  second.set_exit_reason("Done");
  second.set_torch_version("2.6");
  first.set_peak_footprint_bytes(300);
  second.set_peak_footprint_bytes(200);
  v1::Record record;
  SumAttempts({first.SerializeAsString(), second.SerializeAsString()}, record);
  const v1::RunConditions& seen = record.conditions();
  EXPECT_EQ(seen.readings(), 4);
  EXPECT_THAT(seen.power_sources(), ElementsAre("mains", "battery"));
  EXPECT_EQ(seen.first_swap_bytes(), 10);
  EXPECT_EQ(seen.most_swap_bytes(), 70);
  EXPECT_TRUE(seen.low_power_mode());
  EXPECT_DOUBLE_EQ(seen.gpu_utilization_ratio(), 0.3);
  EXPECT_DOUBLE_EQ(seen.user_active_seconds(), 10);
  EXPECT_FALSE(seen.has_least_battery_ratio());
  EXPECT_EQ(record.pauses().count(), 2);
  EXPECT_DOUBLE_EQ(record.pauses().seconds_by_reason().at("battery"), 14);
  EXPECT_DOUBLE_EQ(record.durations().queue_seconds(), 4);
  EXPECT_DOUBLE_EQ(record.durations().load_seconds(), 3);
  EXPECT_DOUBLE_EQ(record.durations().evaluation_seconds(), 2);
  EXPECT_EQ(record.environment().torch_version(), "2.6");
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 300);
  ASSERT_EQ(record.attempts_size(), 2);
  // Nobody saw the end of the first one.
  EXPECT_EQ(record.attempts(0).exit_reason(), "Interrupted");
  EXPECT_EQ(record.attempts(1).exit_reason(), "Done");
}

TEST(SumAttempts, TheLastOnesAreShownAndAllAreCounted) {
  v1::RunAttempt attempt;
  attempt.mutable_pauses()->set_count(1);
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) {
    attempt.set_steps(i);
    many.push_back(attempt.SerializeAsString());
  }
  many.emplace_back("\xff\xff");  // a damaged row
  v1::Record record;
  SumAttempts(many, record);
  EXPECT_EQ(record.pauses().count(), 100);
  ASSERT_EQ(record.attempts_size(), 31);
  EXPECT_EQ(record.attempts(30).steps(), 99);
}

}  // namespace
}  // namespace mpsd::logbook
