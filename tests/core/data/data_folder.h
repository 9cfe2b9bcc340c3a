// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_
#define MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mpsd::data {

// A test with a folder of its own for data files.
class DataFolder : public ::testing::Test {
 protected:
  DataFolder()
      : dir_(::testing::TempDir() + "/" +
             ::testing::UnitTest::GetInstance()
                 ->current_test_info()
                 ->test_suite_name() +
             "_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
             "_" + std::to_string(getpid())) {
    std::filesystem::create_directories(dir_);
  }
  ~DataFolder() override { std::filesystem::remove_all(dir_); }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

 private:
  const std::string dir_;
};

}  // namespace mpsd::data

#endif  // MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_
