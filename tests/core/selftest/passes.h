// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/selftest/checks.h"
#include "core/selftest/selftest.h"

namespace mpsd::selftest {

// Small sizes, odd on purpose.
inline Sizes Small() {
  Sizes s;
  s.width = 48;
  s.inner = 56;
  s.head_dim = 12;
  s.vocabulary = 97;
  s.length = 70;
  return s;
}

// Every check passes on the CPU, is named apart from the others and says what
// it allows. That wrong kernels fail is tested on the fake MPS (tests/ops).
inline void ExpectAllPass(const std::vector<Check>& checks) {
  ASSERT_FALSE(checks.empty());
  const auto device = *device::OpenCpu();
  const Report report = RunChecks(*device, checks);
  EXPECT_TRUE(report.passed()) << report.Summary();
  std::set<std::string> names;
  for (const Check& check : checks) {
    EXPECT_TRUE(names.insert(check.kernel + check.shape).second)
        << check.kernel << " " << check.shape;
  }
}

inline std::set<std::string> Kernels(const std::vector<Check>& checks) {
  std::set<std::string> names;
  for (const Check& check : checks) names.insert(check.kernel);
  return names;
}

}  // namespace mpsd::selftest
