// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/selftest.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

TEST(ChecksTest, AllAreThoseOfEveryPart) {
  const Sizes s = Small();
  EXPECT_EQ(AllChecks(s, true).size(),
            MatrixChecks(s).size() + LayerChecks(s).size() +
                AttentionChecks(s, true).size() + LossChecks(s).size() +
                DeviceChecks(s).size());
}

TEST(ChecksTest, SizesAreTheCallers) {
  Sizes s = Small();
  s.inner = 59;
  EXPECT_THAT(AllChecks(s, false)[0].shape,
              testing::HasSubstr("140 × 48 → 59"));
}

}  // namespace
}  // namespace mpsd::selftest
