// SPDX-License-Identifier: Apache-2.0
#include "core/host/mounts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace mpsd::host {
namespace {

namespace fs = std::filesystem;

constexpr char kTable[] =
    "overlay / overlay rw,relatime 0 0\n"
    "/dev/disk1 /srv ext4 rw 0 0\n"
    "nas:/models /srv/ann/models nfs4 ro,vers=4.2 0 0\n"
    "ann@far: /mnt/my\\040disk fuse.sshfs rw 0 0\n"
    "/dev/disk2 /data xfs rw 0 0\n"
    "tmpfs /data tmpfs rw 0 0\n"
    "\n"
    "broken\n";

std::string TypeAt(const fs::path& path) {
  const auto mount = MountOf(path, ParseMounts(kTable));
  return mount ? mount->type : "none";
}

TEST(Mounts, TheDeepestHoldsAPath) {
  EXPECT_EQ(TypeAt("/"), "overlay");
  EXPECT_EQ(TypeAt("/usr/lib"), "overlay");
  EXPECT_EQ(TypeAt("/srv/ann/there/is/none"), "ext4");
  EXPECT_EQ(TypeAt("/srv/ann/models/llama"), "nfs4");
  EXPECT_EQ(TypeAt("/srv/ann/../ann/models"), "nfs4");
  EXPECT_EQ(TypeAt("/srvs"), "overlay");
  EXPECT_EQ(MountOf("/x", {}), std::nullopt);
}

TEST(Mounts, TheLatestOfTwoAtAPointCounts) {
  EXPECT_EQ(TypeAt("/data/set"), "tmpfs");
}

TEST(Mounts, KnowsANetworkVolumeItsSourceAndWhetherItIsReadOnly) {
  const auto models = MountOf("/srv/ann/models", ParseMounts(kTable)).value();
  EXPECT_TRUE(models.network);
  EXPECT_TRUE(models.read_only);
  EXPECT_EQ(models.source, "nas:/models");
  const auto disk = MountOf("/mnt/my disk/a", ParseMounts(kTable)).value();
  EXPECT_TRUE(disk.network);
  EXPECT_FALSE(disk.read_only);
  EXPECT_EQ(disk.point, "/mnt/my disk");
  for (const char* type : {"nfs", "nfs4", "cifs", "smbfs", "smb3", "afpfs",
                           "fuse.sshfs", "webdav", "lustre", "macfuse"}) {
    EXPECT_TRUE(IsNetworkType(type)) << type;
  }
  for (const char* type : {"apfs", "hfs", "ext4", "xfs", "zfs", "tmpfs",
                           "overlay", "fuse.ntfs", ""}) {
    EXPECT_FALSE(IsNetworkType(type)) << type;
  }
}

class LinksTest : public testing::Test {
 protected:
  LinksTest() { fs::create_directories(folder_); }
  ~LinksTest() override { fs::remove_all(folder_); }
  std::vector<Mount> Table() const {
    return {{"/", "apfs", "disk", false, false},
            {(folder_ / "away").string(), "nfs", "nas:/x", true, false}};
  }
  const fs::path folder_ = fs::canonical(fs::temp_directory_path()) /
                           ("mounts-" + std::to_string(getpid()));
};

TEST_F(LinksTest, AreFollowedToTheVolumeTheyNameAndNoFurther) {
  fs::create_directory_symlink(folder_ / "away" / "cache", folder_ / "one");
  fs::create_directory_symlink("one", folder_ / "two");
  EXPECT_EQ(MountOf(folder_ / "two" / "x", Table())->type, "nfs");
  EXPECT_EQ(MountOf(folder_ / "three" / "x", Table())->type, "apfs");
}

TEST_F(LinksTest, InACircleEnd) {
  fs::create_directory_symlink("b", folder_ / "a");
  fs::create_directory_symlink("a", folder_ / "b");
  EXPECT_EQ(MountOf(folder_ / "a" / "x", Table())->type, "apfs");
}

}  // namespace
}  // namespace mpsd::host
