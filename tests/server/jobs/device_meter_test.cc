// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/meters.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration At(int seconds) { return absl::Seconds(seconds); }

TEST(DeviceMeter, MeasuresFromItsBeginningOn) {
  const DeviceMeter meter(At(100));
  EXPECT_TRUE(meter.is_running());
  EXPECT_EQ(meter.Measured(At(100)), At(0));
  EXPECT_EQ(meter.Measured(At(130)), At(30));
}

TEST(DeviceMeter, LeavesOutWhatLiesBetweenStopAndGoOn) {
  DeviceMeter meter(At(0));
  meter.Stop(At(10));
  EXPECT_FALSE(meter.is_running());
  EXPECT_EQ(meter.Measured(At(1000)), At(10));
  meter.GoOn(At(1000));
  EXPECT_EQ(meter.Measured(At(1005)), At(15));
}

TEST(DeviceMeter, ASecondCallOfAKindDoesNothing) {
  DeviceMeter meter(At(0));
  meter.GoOn(At(5));
  EXPECT_EQ(meter.Measured(At(10)), At(10));
  meter.Stop(At(10));
  meter.Stop(At(20));
  EXPECT_EQ(meter.Measured(At(20)), At(10));
}

TEST(DeviceMeter, NeverRunsBackwards) {
  DeviceMeter meter(At(100));
  EXPECT_EQ(meter.Measured(At(90)), At(0));
  meter.Stop(At(90));
  EXPECT_EQ(meter.Measured(At(200)), At(0));
}

}  // namespace
}  // namespace mpsd::jobs
