// SPDX-License-Identifier: Apache-2.0
#include "core/worker/cpu_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::worker {
namespace {

// Of any machine that tests run on, however busy.
TEST(CpuRates, ArePossible) {
  const plan::Rates rates = MeasureCpu();
  EXPECT_GT(rates.fp32_operations, 1e8);
  EXPECT_LT(rates.fp32_operations, 1e14);
  EXPECT_GT(rates.half_operations, 1e7);
  EXPECT_GT(rates.bytes, 1e7);
  EXPECT_LT(rates.bytes, 1e13);
  EXPECT_GT(rates.call_seconds, 0);
  EXPECT_THAT(rates.source, testing::HasSubstr("this CPU"));
}

}  // namespace
}  // namespace mpsd::worker
