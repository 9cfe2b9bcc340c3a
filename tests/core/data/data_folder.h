// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_
#define MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd::data {

// A test with a folder of its own for data files.
class DataFolder : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

 private:
  const std::string dir_ = testing_support::FreshFolder("data_files").string();
};

}  // namespace mpsd::data

#endif  // MPSD_TESTS_CORE_DATA_DATA_FOLDER_H_
