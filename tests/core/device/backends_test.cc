// SPDX-License-Identifier: Apache-2.0
#include "core/device/backends.h"

#include <gtest/gtest.h>

#include "core/device/device.h"

namespace mpsd::device {
namespace {

TEST(Backends, AreWhatOpensOrWhy) {
  const std::vector<Backend> all = ListBackends();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "mps");
  EXPECT_EQ(all[1].name, "cuda");
  EXPECT_EQ(all[0].available, OpenMps().ok());
  EXPECT_EQ(all[1].available, OpenCuda().ok());
  for (const Backend& backend : all) {
    EXPECT_EQ(backend.available, backend.problem.empty()) << backend.name;
    EXPECT_EQ(backend.available, !backend.device.empty()) << backend.name;
    // What is available was built.
    EXPECT_GE(backend.built, backend.available) << backend.name;
  }
#ifndef __APPLE__
  EXPECT_FALSE(all[0].built);
#else
  EXPECT_TRUE(all[0].built);
#endif
}

// On a Mac without a device for MPS the guess is wrong.
TEST(Backends, TheLikelyBestIsWhatOpens) {
  const auto best = OpenBest();
  ASSERT_TRUE(best.ok());
  if (OpenMps().ok() || !ListBackends()[0].built) {
    EXPECT_EQ(backend::NameOf(LikelyBest()), (*best)->name());
  }
}

}  // namespace
}  // namespace mpsd::device
