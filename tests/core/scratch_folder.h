// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_SCRATCH_FOLDER_H_
#define MPSD_TESTS_CORE_SCRATCH_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace mpsd::testing_support {

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
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A new empty folder.
inline std::filesystem::path FreshFolder(const std::string& name) {
  static const ScratchRoot root;
  const std::filesystem::path folder = root.path() / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace mpsd::testing_support

#endif  // MPSD_TESTS_CORE_SCRATCH_FOLDER_H_
