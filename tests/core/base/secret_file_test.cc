// SPDX-License-Identifier: Apache-2.0
#include "core/base/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class SecretFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read(mode_t mode) const {
    chmod(path_.c_str(), mode);
    return ReadSecretFile(path_, 16);
  }
  void SetUp() override { std::ofstream(path_) << "hidden"; }

  const fs::path path_ = testing_support::FreshFolder("secret") / "file";
};

TEST_F(SecretFileTest, IsForItsOwnerAndGroup) {
  for (mode_t mode : {0600, 0400, 0640, 0440, 0700}) {
    const auto text = Read(mode);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "hidden");
  }
}

TEST_F(SecretFileTest, IsRefusedWhereOthersReadOrChangeIt) {
  for (mode_t mode : {0644, 0604, 0602, 0601, 0620, 0660, 0777}) {
    const absl::Status status = Read(mode).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << mode;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("chmod 600 " + path_.string()));
    EXPECT_THAT(message, Not(HasSubstr("hidden")));
  }
}

TEST_F(SecretFileTest, MayBeALinkButNoPipe) {
  chmod(path_.c_str(), 0600);
  const fs::path link = path_.parent_path() / "link";
  fs::create_symlink(path_, link);
  EXPECT_TRUE(ReadSecretFile(link, 16).ok());
  const fs::path pipe = path_.parent_path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecretFile(pipe, 16).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecretFile(path_, 5).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadSecretFile("/nowhere", 16).status()));
}

}  // namespace
}  // namespace mpsd::base
