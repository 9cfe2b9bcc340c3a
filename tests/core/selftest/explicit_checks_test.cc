// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/selftest/checks.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::selftest {
namespace {

using backend::Choice;
using backend::TraitsOf;
using testing::IsSupersetOf;

TEST(ExplicitChecksTest, TheCpuPassesByItsKernelsAndByThoseOfMps) {
  ExpectAllPass(ExplicitChecks(Small(), TraitsOf(Choice::kCpu)));
  ExpectAllPass(ExplicitChecks(Small(), TraitsOf(Choice::kMps)));
}

TEST(ExplicitChecksTest, NoPartOfTheStepIsLeftOut) {
  EXPECT_THAT(
      selftest::Kernels(ExplicitChecks(Small(), TraitsOf(Choice::kMps))),
      IsSupersetOf({"explicit attention, causal", "explicit attention, packed",
                    "explicit attention, windowed",
                    "explicit norm, gradient by x",
                    "explicit rotation, gradient",
                    "explicit head and cross-entropy, gradient"}));
}

}  // namespace
}  // namespace mpsd::selftest
