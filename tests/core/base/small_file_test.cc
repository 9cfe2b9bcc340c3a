// SPDX-License-Identifier: Apache-2.0
#include "core/base/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    std::string pattern = testing::TempDir() + "small_file_test.XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~SmallFileTest() override { fs::remove_all(dir_); }
  void ExpectRefused(const fs::path& path, const std::string& why) {
    const absl::Status status = ReadSmallFile(path, 8).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path.string()));
  }
  fs::path dir_;
};

TEST_F(SmallFileTest, AtTheLimitAndOnePastIt) {
  std::ofstream(dir_ / "eight") << "12345678";
  EXPECT_EQ(*ReadSmallFile(dir_ / "eight", 8), "12345678");
  std::ofstream(dir_ / "nine") << "123456789";
  ExpectRefused(dir_ / "nine", "longer than 8 bytes");
  std::ofstream(dir_ / "empty");
  EXPECT_EQ(*ReadSmallFile(dir_ / "empty", 8), "");
}

TEST_F(SmallFileTest, ASparseFileIsRefusedByItsSize) {
  std::ofstream(dir_ / "sparse") << "{";
  fs::resize_file(dir_ / "sparse", uintmax_t{1} << 40);
  ExpectRefused(dir_ / "sparse", "longer than 8 bytes");
}

TEST_F(SmallFileTest, PipesFoldersAndDevicesHoldNobody) {
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  ExpectRefused(dir_ / "pipe", "not a regular file");
  fs::create_symlink(dir_ / "pipe", dir_ / "link");
  ExpectRefused(dir_ / "link", "not a regular file");
  ExpectRefused("/dev/zero", "not a regular file");
  ExpectRefused(dir_, "not a regular file");
}

#ifdef __linux__
// It says that it is empty, and is not.
TEST_F(SmallFileTest, AFileThatIsLongerThanItSaysIsCounted) {
  ExpectRefused("/proc/self/status", "longer than 8 bytes");
}
#endif

TEST_F(SmallFileTest, LiesWithinWhatIsGiven) {
  fs::create_directories(dir_ / "in");
  std::ofstream(dir_ / "in/file") << "x";
  std::ofstream(dir_ / "secret") << "y";
  fs::create_symlink("../secret", dir_ / "in/link");
  const ReadRoots within({dir_ / "in"});
  EXPECT_EQ(*ReadSmallFile(dir_ / "in/file", 8, &within), "x");
  for (const char* path : {"secret", "in/link", "in/../secret"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(
        ReadSmallFile(dir_ / path, 8, &within).status()))
        << path;
  }
}

TEST_F(SmallFileTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadSmallFile(dir_ / "none", 8).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::base
