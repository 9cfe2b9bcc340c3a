// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(MatrixChecksTest, TheCpuPasses) { ExpectAllPass(MatrixChecks(Small())); }

TEST(MatrixChecksTest, NoKernelOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(MatrixChecks(Small())),
              IsSupersetOf({"linear, gradients", "matmul, longest sum",
                            "bmm, longest sum"}));
}

}  // namespace
}  // namespace mpsd::selftest
