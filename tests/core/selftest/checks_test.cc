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
  const auto device = *device::OpenCpu();
  EXPECT_EQ(AllChecks(s, *device).size(),
            MatrixChecks(s).size() + LayerChecks(s).size() +
                AttentionChecks(s, true).size() + LossChecks(s).size() +
                ExplicitChecks(s, device->traits()).size() +
                DeviceChecks(s).size() + DecoderChecks(s).size() +
                ClassifierChecks(s).size());
}

TEST(ChecksTest, SizesAreTheCallers) {
  Sizes s = Small();
  s.inner = 59;
  EXPECT_THAT(AllChecks(s, *device::OpenCpu().value())[0].shape,
              testing::HasSubstr("140 × 48 → 59"));
}

TEST(ChecksTest, CoverageIsOfNamesShapesAndTolerances) {
  const Check check{"mm", "2 × 3", 0.1, nullptr};
  const std::string coverage = Coverage({check});
  EXPECT_EQ(Coverage({check}), coverage);
  Check other = check;
  other.tolerance = 0.2;
  EXPECT_NE(Coverage({other}), coverage);
  other = check;
  other.kernel = "bmm";
  EXPECT_NE(Coverage({other}), coverage);
  EXPECT_NE(Coverage({check, check}), coverage);
}

}  // namespace
}  // namespace mpsd::selftest
