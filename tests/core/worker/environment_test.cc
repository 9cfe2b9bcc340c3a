// SPDX-License-Identifier: Apache-2.0
// That the program starts anew is seen in tests/e2e/manners_test.py.
#include "core/worker/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/core/job_folder.h"

namespace mpsd::worker {
namespace {

TEST(NeededEnvironment, IsThatOfAWorker) {
  const host::Environment needed = NeededEnvironment({{"A", "b"}}, "");
  EXPECT_EQ(needed.at("A"), "b");
  EXPECT_EQ(needed.at("PYTORCH_ENABLE_MPS_FALLBACK"), "0");
  EXPECT_EQ(NeededEnvironment(needed, ""), needed) << "no need to start anew";
}

TEST(NeededEnvironment, HeedsTheJob) {
  testing_support::JobFolder folder("needed_environment");
  const auto fallback = [&] {
    return NeededEnvironment({}, folder.Write().string())
        .at("PYTORCH_ENABLE_MPS_FALLBACK");
  };
  EXPECT_EQ(fallback(), "0");
  folder.job()["allow_cpu_fallback"] = true;
  EXPECT_EQ(fallback(), "1");
}

TEST(NotedEnvironment, IsWhatResultsMayDependOn) {
  setenv("PYTORCH_MPSD_TEST", "1", 1);
  setenv("MPSD_SECRET", "1", 1);
  const auto noted = NotedEnvironment();
  EXPECT_EQ(noted.at("PYTORCH_MPSD_TEST"), "1");
  EXPECT_FALSE(noted.contains("MPSD_SECRET"));
  EXPECT_FALSE(noted.contains("PATH"));
}

TEST(EnsureEnvironment, ReturnsWhereNothingIsMissing) {
  for (const auto& [name, value] : host::WorkerEnvironment({})) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  EnsureEnvironment(nullptr, "");
  SUCCEED() << "it would have failed with no arguments";
}

}  // namespace
}  // namespace mpsd::worker
