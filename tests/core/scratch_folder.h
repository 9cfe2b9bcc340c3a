// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace mpsd {
inline namespace testing_support {

namespace fs = std::filesystem;

// This process's own temporary folder, removed when it ends: tests of one
// program run at the same time.
class ScratchRoot {
 public:
  ScratchRoot() {
    std::string pattern = testing::TempDir() + "mpsd_test.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchRoot() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A new empty folder.
inline fs::path FreshFolder(const std::string& name) {
  static const ScratchRoot root;
  const fs::path folder = root.path() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

}  // namespace testing_support
}  // namespace mpsd
