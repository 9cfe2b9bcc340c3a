// SPDX-License-Identifier: Apache-2.0
#include "server/default_places.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace mpsd {
namespace {

namespace fs = std::filesystem;

TEST(DefaultPlaces, TheStateFolderIsInTheHomeFolder) {
  const char* home = std::getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  setenv("HOME", "/somewhere", 1);
#ifdef __APPLE__
  EXPECT_EQ(DefaultStateDir(), "/somewhere/Library/Application Support/mpsd");
#else
  EXPECT_EQ(DefaultStateDir(), "/somewhere/.local/state/mpsd");
#endif
  unsetenv("HOME");
  EXPECT_EQ(DefaultStateDir(), "");
  if (home != nullptr) setenv("HOME", before.c_str(), 1);
}

TEST(DefaultPlaces, TheWorkerLiesBesideTheProgram) {
  EXPECT_EQ(DefaultWorker(),
            fs::canonical(MPSD_TEST_BINARY_DIR) / "mpsd-worker");
}

}  // namespace
}  // namespace mpsd
