// SPDX-License-Identifier: Apache-2.0
#include "core/base/sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;

class SyncTest : public testing::Test {
 protected:
  SyncTest()
      : folder_(fs::path(testing::TempDir()) /
                ("sync-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~SyncTest() override { fs::remove_all(folder_); }
  // `count` files and their folder.
  std::vector<fs::path> Files(int count) {
    std::vector<fs::path> paths = {folder_};
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_ / std::to_string(i));
      std::ofstream(paths.back()) << i;
    }
    return paths;
  }

  const fs::path folder_;
};

TEST_F(SyncTest, FlushesFilesAndFoldersFewAndMany) {
  EXPECT_TRUE(SyncAll({}).ok());
  for (int count : {0, 1, 7, 8, 100}) {
    const absl::Status synced = SyncAll(Files(count));
    EXPECT_TRUE(synced.ok()) << count << ": " << synced;
  }
}

TEST_F(SyncTest, NamesWhatIsNotThere) {
  std::vector<fs::path> paths = Files(2);
  paths.push_back(folder_ / "gone");
  const absl::Status synced = SyncAll(paths);
  EXPECT_EQ(synced.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(synced.message()), testing::HasSubstr("gone"));
}

}  // namespace
}  // namespace mpsd::base
