// SPDX-License-Identifier: Apache-2.0
#include "core/base/exchange.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/file.h"

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() {
    std::string name = testing::TempDir() + "exchangeXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ExchangeTest() override { fs::remove_all(folder_); }

  fs::path Make(const std::string& name, const std::string& content) {
    const fs::path path = folder_ / name;
    fs::create_directory(path);
    std::ofstream(path / "file") << content;
    return path;
  }
  static std::string Content(const fs::path& folder) {
    return ReadFile(folder / "file").value_or("nothing");
  }

  fs::path folder_;
};

TEST_F(ExchangeTest, TwoFoldersChangePlaces) {
  const fs::path a = Make("a", "one"), b = Make("b", "two");
  ASSERT_TRUE(ExchangePaths(a, b).ok());
  EXPECT_EQ(Content(a), "two");
  EXPECT_EQ(Content(b), "one");
}

TEST_F(ExchangeTest, NothingChangesWhereOneIsMissing) {
  const fs::path a = Make("a", "one");
  EXPECT_TRUE(absl::IsNotFound(ExchangePaths(a, folder_ / "none")));
  EXPECT_EQ(Content(a), "one");
}

TEST_F(ExchangeTest, WhoLooksAlwaysFindsOneOfThem) {
  const fs::path a = Make("a", "one"), b = Make("b", "two");
  std::atomic<bool> done{false};
  std::atomic<int> missed{0};
  std::thread looks([&] {
    while (!done) missed += !fs::exists(b / "file");
  });
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(ExchangePaths(a, b).ok());
  done = true;
  looks.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace mpsd::base
