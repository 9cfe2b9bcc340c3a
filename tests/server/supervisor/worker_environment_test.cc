// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace mpsd::supervisor {
namespace {

TEST(WorkerEnvironment, SetsWhatASharedMacNeeds) {
  const Environment environment = WorkerEnvironment({{"HOME", "/home/u"}});
  EXPECT_EQ(environment, (Environment{
                             {"HOME", "/home/u"},
                             {"OMP_WAIT_POLICY", "PASSIVE"},
                             {"PYTORCH_ENABLE_MPS_FALLBACK", "0"},
                             {"PYTORCH_MPS_FAST_MATH", "0"},
                             {"PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.95"},
                             {"PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.75"},
                         }));
}

TEST(WorkerEnvironment, TheUsersWordStands) {
  const Environment environment =
      WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "1"}});
  EXPECT_EQ(environment.at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
}

TEST(CurrentEnvironment, IsThatOfThisProcess) {
  setenv("MPSD_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(CurrentEnvironment().at("MPSD_TEST_VARIABLE"), "a=b");
  unsetenv("MPSD_TEST_VARIABLE");
  EXPECT_FALSE(CurrentEnvironment().contains("MPSD_TEST_VARIABLE"));
}

}  // namespace
}  // namespace mpsd::supervisor
