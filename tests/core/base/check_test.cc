// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <limits>
#include <string>

namespace mpsd::base {
namespace {

// A failure in a constant expression is a compile error.
constexpr int FirstOf(int a, int b) {
  Check(a != b, "the two differ");
  CheckEqual(a - b, -1, "their difference");
  CheckLess(a, b, "their order");
  CheckAtMost(a, b, "their order");
  CheckIndex(a, b, "the first");
  return a;
}
static_assert(FirstOf(1, 2) == 1);

std::string Here(int line) {
  return "check_test.cc:" + std::to_string(line) + ": check failed: ";
}

TEST(CheckTest, WhatHoldsChangesNothing) {
  Check(true, "true");
  CheckEqual(3, size_t{3}, "sizes");
  CheckLess(2, size_t{3}, "sizes");
  CheckAtMost(int64_t{3}, 3, "sizes");
  CheckIndex(0, size_t{1}, "an index");
}

TEST(CheckDeathTest, AFailureNamesItsPlaceAndItsInvariant) {
  EXPECT_EXIT(Check(false, "Start is called once"),
              testing::KilledBySignal(SIGABRT),
              Here(__LINE__ - 2) + "Start is called once\n");
}

TEST(CheckDeathTest, TwoOperandsArePrinted) {
  EXPECT_DEATH(CheckEqual(2, size_t{3}, "ends and samples"),
               Here(__LINE__ - 1) + "ends and samples: 2 == 3\n");
  EXPECT_DEATH(CheckLess(3, 3, "the row"), "the row: 3 < 3\n");
  EXPECT_DEATH(CheckAtMost(4, 3, "the row"), "the row: 4 <= 3\n");
  EXPECT_DEATH(CheckIndex(3, 3, "the row"), "the row: 3 < 3\n");
  EXPECT_DEATH(CheckIndex(-1, 3, "the row"), "the row: -1 >= 0\n");
}

TEST(CheckDeathTest, NumbersCompareByValueWhateverTheirSigns) {
  CheckLess(-1, size_t{0}, "a signed and an unsigned number");
  CheckLess(std::numeric_limits<int64_t>::min(),
            std::numeric_limits<uint64_t>::max(), "the ends of both");
  EXPECT_DEATH(CheckEqual(std::numeric_limits<uint64_t>::max(), -1, "both"),
               "both: 18446744073709551615 == -1\n");
  EXPECT_DEATH(CheckEqual(std::numeric_limits<int64_t>::min(), 0, "both"),
               "both: -9223372036854775808 == 0\n");
}

TEST(CheckTest, OperandsAreEvaluatedOnce) {
  int calls = 0;
  CheckLess(++calls, 2, "calls");
  EXPECT_EQ(1, calls);
}

TEST(CheckDeathTest, ALongInvariantIsCutAndStillEndsItsLine) {
  const std::string longest(2000, 'x');
  EXPECT_DEATH(Check(false, longest.c_str()), "xxxx\n$");
}

// The pipe is full and has no reader that goes on: the process ends all the
// same.
TEST(CheckDeathTest, AFullStderrDelaysTheEndByASecondAtMost) {
  EXPECT_EXIT(
      {
        int ends[2];
        if (pipe(ends) != 0) _exit(1);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        const std::string bytes(4096, 'x');
        while (write(ends[1], bytes.data(), bytes.size()) > 0) {
        }
        fcntl(ends[1], F_SETFL, 0);
        dup2(ends[1], STDERR_FILENO);
        alarm(30);  // SIGALRM would be another signal than the one expected
        Check(false, "nobody reads this");
      },
      testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace mpsd::base
