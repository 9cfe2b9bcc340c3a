// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(DeviceChecksTest, TheCpuPasses) { ExpectAllPass(DeviceChecks(Small())); }

TEST(DeviceChecksTest, NoKernelOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(DeviceChecks(Small())),
              IsSupersetOf({"casts", "copies of views", "no work is lost",
                            "clipping and AdamW, 3 steps"}));
}

}  // namespace
}  // namespace mpsd::selftest
