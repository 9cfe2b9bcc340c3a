// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using testing::IsSupersetOf;

TEST(DecoderChecksTest, TheCpuPasses) { ExpectAllPass(DecoderChecks(Small())); }

TEST(DecoderChecksTest, NoPartOfTrainingIsLeftOut) {
  EXPECT_THAT(Kernels(DecoderChecks(Small())),
              IsSupersetOf({"explicit step", "explicit step, packed",
                            "explicit step, windowed", "explicit step, NF4",
                            "modules_to_save", "all weights of a decoder"}));
}

}  // namespace
}  // namespace mpsd::selftest
