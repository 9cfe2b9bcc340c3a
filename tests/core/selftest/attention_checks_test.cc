// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(AttentionChecksTest, TheCpuPasses) {
  ExpectAllPass(AttentionChecks(Small(), true));
}

TEST(AttentionChecksTest, NoKernelOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(AttentionChecks(Small(), true)),
              IsSupersetOf({"tiled attention, causal, gradients",
                            "tiled attention, packed, gradients",
                            "the device's own attention, causal, gradients"}));
}

}  // namespace
}  // namespace mpsd::selftest
