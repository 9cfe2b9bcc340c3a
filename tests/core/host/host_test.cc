// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"

#include <gtest/gtest.h>

namespace mpsd::host {
namespace {

TEST(HostNames, GoBothWays) {
  for (PowerSource source : {PowerSource::kMains, PowerSource::kBattery}) {
    EXPECT_EQ(PowerSourceNamed(Name(source)), source);
  }
  for (Thermal level : {Thermal::kNominal, Thermal::kModerate, Thermal::kHeavy,
                        Thermal::kTrapping, Thermal::kSleeping}) {
    EXPECT_EQ(ThermalNamed(Name(level)), level);
  }
  for (MemoryPressure level : {MemoryPressure::kNormal, MemoryPressure::kWarn,
                               MemoryPressure::kCritical}) {
    EXPECT_EQ(MemoryPressureNamed(Name(level)), level);
  }
  EXPECT_EQ(Name(Thermal::kHeavy), "heavy");
  EXPECT_FALSE(PowerSourceNamed("").has_value());
  EXPECT_FALSE(ThermalNamed("hot").has_value());
  EXPECT_FALSE(MemoryPressureNamed("Warn").has_value());
}

TEST(HostNumbers, AreThoseOfMacOS) {
  EXPECT_EQ(ThermalOfState(0), Thermal::kNominal);
  EXPECT_EQ(ThermalOfState(2), Thermal::kHeavy);
  EXPECT_EQ(ThermalOfState(4), Thermal::kSleeping);
  EXPECT_FALSE(ThermalOfState(5).has_value());
  EXPECT_EQ(MemoryPressureOfLevel(1), MemoryPressure::kNormal);
  EXPECT_EQ(MemoryPressureOfLevel(2), MemoryPressure::kWarn);
  EXPECT_EQ(MemoryPressureOfLevel(4), MemoryPressure::kCritical);
  EXPECT_FALSE(MemoryPressureOfLevel(3).has_value());
  EXPECT_FALSE(MemoryPressureOfLevel(0).has_value());
}

}  // namespace
}  // namespace mpsd::host
