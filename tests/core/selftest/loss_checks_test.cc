// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(LossChecksTest, TheCpuPasses) { ExpectAllPass(LossChecks(Small())); }

TEST(LossChecksTest, NoKernelOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(LossChecks(Small())),
              IsSupersetOf({"head and cross-entropy, gradients",
                            "trained head and cross-entropy, gradients",
                            "loss of regression, gradients"}));
}

}  // namespace
}  // namespace mpsd::selftest
