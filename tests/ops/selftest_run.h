// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_SELFTEST_RUN_H_
#define MPSD_TESTS_OPS_SELFTEST_RUN_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/selftest/checks.h"

namespace mpsd::ops {

// A check of the self-test, and what it called on the fake MPS.
struct RunCheck {
  selftest::Check check;
  std::set<std::string> operators;   // typed names, see operators.h
  std::set<std::string> signatures;  // with shapes
  int64_t kernels = 0;               // calls
  double seconds = 0;
  std::string failure;  // its row of the table, or ""
};

// The whole self-test at small sizes on the fake MPS; run once a process.
const std::vector<RunCheck>& SelftestRun();

// All operators that it calls.
const std::set<std::string>& RunBySelftest();

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_SELFTEST_RUN_H_
