// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(LayerChecksTest, TheCpuPasses) { ExpectAllPass(LayerChecks(Small())); }

TEST(LayerChecksTest, NoKernelOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(LayerChecks(Small())),
              IsSupersetOf({"RMS norm, gradients", "layer norm, gradients",
                            "rotary, gradients", "silu, gradients",
                            "gelu, gradients", "embedding, gradients"}));
}

}  // namespace
}  // namespace mpsd::selftest
