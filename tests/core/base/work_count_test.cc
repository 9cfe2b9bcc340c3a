// SPDX-License-Identifier: Apache-2.0
#include "core/base/work_count.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/sha256.h"

namespace mpsd::base {
namespace {

// Pieces that `work` counts.
template <typename Work>
int64_t PiecesOf(Work work) {
  const int64_t before = WorkCount();
  work();
  return WorkCount() - before;
}

TEST(WorkCountTest, EveryThreadsWorkCounts) {
  EXPECT_EQ(PiecesOf([] {
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; ++i) {
                threads.emplace_back([] {
                  for (int j = 0; j < 1000; ++j) CountWork();
                });
              }
              for (std::thread& thread : threads) thread.join();
            }),
            4000);
  EXPECT_EQ(PiecesOf([] {}), 0);
}

// A model of many gigabytes on a slow disk is one file.
TEST(WorkCountTest, AFileThatIsHashedCountsByParts) {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("work_count-" + std::to_string(getpid()));
  std::ofstream(path) << std::string(20 << 20, 'x');
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(Sha256File(path).ok()); }), 3);
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(ReadFile(path).ok()); }), 1);
  EXPECT_GE(PiecesOf([&] { EXPECT_TRUE(WriteFileAtomic(path, "y").ok()); }), 1);
  EXPECT_EQ(PiecesOf([&] { EXPECT_FALSE(ReadFile(path / "none").ok()); }), 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mpsd::base
