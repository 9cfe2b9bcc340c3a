// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_TEXT_FOLDERS_H_
#define MPSD_TESTS_CORE_TEXT_FOLDERS_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/core/scratch_folder.h"

namespace mpsd::text {

// A path below testdata/, which make_golden.py fills.
inline std::string TestData(const std::string& name) {
  return std::string(MPSD_TEST_SOURCE_DIR) + "/tests/core/text/testdata/" +
         name;
}

inline nlohmann::ordered_json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::ordered_json::parse(file);
}

// A new folder of one's own.
class TemporaryFolder {
 public:
  const std::string& path() const { return path_; }

  void Write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }

 private:
  static inline int made_ = 0;
  const std::string path_ =
      testing_support::FreshFolder("text_" + std::to_string(++made_));
};

}  // namespace mpsd::text

#endif  // MPSD_TESTS_CORE_TEXT_FOLDERS_H_
