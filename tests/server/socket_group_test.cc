// SPDX-License-Identifier: Apache-2.0
#include "server/socket_group.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

TEST(SocketGroupTest, AGroupHasANameAndANumber) {
  const group* own = getgrgid(0);
  ASSERT_NE(own, nullptr);
  const std::string name = own->gr_name;
  EXPECT_EQ(*GroupNamed(name), 0u);
  EXPECT_EQ(*GroupNamed("4711"), 4711u);
}

TEST(SocketGroupTest, AGroupThatIsNoneIsNamed) {
  for (const char* name : {"no such group", "", "-1"}) {
    const absl::Status status = GroupNamed(name).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << name;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("no group '" + std::string(name) + "'"));
  }
}

TEST(SocketGroupTest, MembersPassAFolderAndListNothing) {
  const std::filesystem::path folder = testing_support::FreshFolder("group");
  const gid_t group = geteuid() == 0 ? 4711 : getegid();
  for (mode_t before : {0700, 0770, 0750}) {
    ASSERT_EQ(chmod(folder.c_str(), before), 0);
    ASSERT_TRUE(LetThrough(folder, group).ok());
    struct stat info;
    ASSERT_EQ(stat(folder.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0710u);
    EXPECT_EQ(info.st_gid, group);
  }
  EXPECT_TRUE(absl::IsNotFound(LetThrough(folder / "none", group)));
}

}  // namespace
}  // namespace mpsd
