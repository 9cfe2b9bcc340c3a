// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/host/machine.h"

namespace mpsd::host {
namespace {

TEST(BootId, IsTheSameUntilTheMachineRestarts) {
  EXPECT_EQ(BootId(), BootId());
  EXPECT_EQ(BootId().size(), 36) << BootId();
  EXPECT_EQ(BootId().find_first_not_of("0123456789abcdef-"), std::string::npos);
}

TEST(PhysicalMemory, IsThatOfAMachine) {
  EXPECT_GT(PhysicalMemory(), int64_t{1} << 28);
  EXPECT_LT(PhysicalMemory(), int64_t{1} << 50);
}

TEST(Architecture, IsThatOfThisProgram) {
#if defined(__aarch64__) || defined(__arm64__)
  EXPECT_EQ(Architecture(), "arm64");
#elif defined(__x86_64__)
  EXPECT_EQ(Architecture(), "x86_64");
#else
  EXPECT_NE(Architecture(), "");
#endif
}

TEST(Cores, AreThoseOfTheSystem) {
  const Cores cores = CountCores();
  EXPECT_GE(cores.all, 1);
  EXPECT_LE(cores.fast.value_or(0) + cores.efficient.value_or(0), cores.all);
}

TEST(Machine, IsAMacOrNoMac) {
#ifdef __APPLE__
  EXPECT_NE(MacosVersion(), "");
  EXPECT_EQ(IsTranslated(), false);
#else
  EXPECT_EQ(MacosVersion(), "");
  EXPECT_EQ(IsTranslated(), std::nullopt);
  EXPECT_EQ(GpuCores(), std::nullopt);
#endif
}

}  // namespace
}  // namespace mpsd::host
