// SPDX-License-Identifier: Apache-2.0
// The contract of step_scope.h, whichever system implements it.
#include <gtest/gtest.h>

#include "core/device/step_scope.h"

namespace mpsd::device {
namespace {

TEST(StepScopeTest, ScopesNest) {
  const StepScope outer;
  for (int i = 0; i < 3; ++i) StepScope inner;
}

}  // namespace
}  // namespace mpsd::device
