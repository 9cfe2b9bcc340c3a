// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_roots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/small_file.h"

namespace mpsd::base {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// in/a.txt is inside, out/secret.txt is not.
class ReadRootsTest : public testing::Test {
 protected:
  ReadRootsTest()
      : folder_(fs::path(testing::TempDir()) /
                ("read_roots-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "in" / "deep");
    fs::create_directories(folder_ / "out");
    std::ofstream(folder_ / "in" / "a.txt") << "inside";
    std::ofstream(folder_ / "out" / "secret.txt") << "secret";
  }
  ~ReadRootsTest() override { fs::remove_all(folder_); }

  // The file's text, or the error's.
  static std::string Read(const ReadRoots& roots, const fs::path& path) {
    const auto fd = roots.Open(path);
    if (!fd.ok()) return std::string(fd.status().message());
    char text[64] = {};
    EXPECT_GE(read(*fd, text, sizeof text - 1), 0);
    close(*fd);
    return text;
  }
  std::string Outside(const fs::path& path) const {
    return path.string() + ": lies outside of the folders that jobs may read";
  }

  const fs::path folder_;
};

TEST_F(ReadRootsTest, OpensWhatLiesBeneath) {
  const ReadRoots roots({folder_ / "in"});
  EXPECT_EQ(Read(roots, folder_ / "in/a.txt"), "inside");
  EXPECT_EQ(Read(roots, folder_ / "in/deep/../a.txt"), "inside");
  EXPECT_TRUE(roots.Contain(folder_ / "in"));
  EXPECT_TRUE(roots.Contain(folder_ / "in/deep"));
  EXPECT_TRUE(roots.Contain(folder_ / "in/none/yet"));
  EXPECT_TRUE(absl::IsNotFound(roots.Open(folder_ / "in/none").status()));
}

TEST_F(ReadRootsTest, WhatLiesOutsideIsToldInTheSameWordsWhateverIsThere) {
  const ReadRoots roots({folder_ / "in"});
  for (const char* path :
       {"out/secret.txt", "out/none.txt", "out", "none", "in/../out/secret.txt",
        "in/none/../../out/secret.txt", "inside.txt", ""}) {
    const fs::path outside = folder_ / path;
    EXPECT_EQ(Read(roots, outside), Outside(outside));
    EXPECT_FALSE(roots.Contain(outside)) << outside;
  }
  EXPECT_FALSE(roots.Contain("/"));
  EXPECT_FALSE(roots.Contain(""));
}

TEST_F(ReadRootsTest, LinksCountByWhereTheyLead) {
  fs::create_symlink(folder_ / "out/secret.txt", folder_ / "in/file");
  fs::create_symlink("../out", folder_ / "in/folder");
  fs::create_symlink(folder_ / "out/none", folder_ / "in/dangling");
  fs::create_symlink("a.txt", folder_ / "in/here");
  fs::create_symlink("loop", folder_ / "in/loop");
  const ReadRoots roots({folder_ / "in"});
  for (const char* path : {"in/file", "in/folder/secret.txt",
                           "in/folder/none.txt", "in/dangling", "in/loop"}) {
    EXPECT_EQ(Read(roots, folder_ / path), Outside(folder_ / path));
  }
  EXPECT_EQ(Read(roots, folder_ / "in/here"), "inside");
  // A root may be a link, and is what it leads to.
  fs::create_symlink("in", folder_ / "root");
  EXPECT_EQ(Read(ReadRoots({folder_ / "root/"}), folder_ / "in/a.txt"),
            "inside");
  EXPECT_EQ(Read(roots, folder_ / "root/a.txt"), "inside");
}

TEST_F(ReadRootsTest, NoRootIsNoFile) {
  const ReadRoots none({});
  EXPECT_FALSE(none.Contain("/"));
  EXPECT_EQ(Read(none, folder_ / "in/a.txt"), Outside(folder_ / "in/a.txt"));
  const ReadRoots all({"/"});
  EXPECT_EQ(Read(all, folder_ / "out/secret.txt"), "secret");
}

TEST_F(ReadRootsTest, OpensNothingButFiles) {
  const ReadRoots roots({folder_ / "in"});
  ASSERT_EQ(mkfifo((folder_ / "in/pipe").c_str(), 0600), 0);
  // As the machine's fault it would hold every job.
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // The folder's own path may be longer than a socket's may.
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "in");
  std::strcpy(name.sun_path, "socket");
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&name), sizeof name),
            0);
  fs::current_path(before);
  close(socket_fd);
  for (const char* path : {"in/pipe", "in/deep", "in", "in/socket"}) {
    const auto opened = roots.Open(folder_ / path);
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
  }
}

TEST_F(ReadRootsTest, ANameWithAZeroByteIsNone) {
  const ReadRoots roots({folder_ / "in"});
  const fs::path cut = (folder_ / "in/a.txt").string() + std::string("\0x", 2);
  EXPECT_FALSE(roots.Contain(cut));
  EXPECT_FALSE(roots.Open(cut).ok());
}

// A folder that is now itself and now a link to the secret's.
TEST_F(ReadRootsTest, NoLinkSlipsInBetweenTheLookAndTheOpening) {
  const ReadRoots roots({folder_ / "in"});
  const fs::path swapped = folder_ / "in/swapped";
  fs::create_directories(folder_ / "in/real");
  std::ofstream(folder_ / "in/real/secret.txt") << "inside";
  fs::create_symlink(folder_ / "out", folder_ / "in/link");
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    std::error_code ignored;
    while (!stop) {
      fs::rename(folder_ / "in/real", swapped, ignored);
      fs::rename(swapped, folder_ / "in/real", ignored);
      fs::rename(folder_ / "in/link", swapped, ignored);
      fs::rename(swapped, folder_ / "in/link", ignored);
    }
  });
  int inside = 0;
  // Where the machine holds the other thread up, it goes on until the folder
  // was there once.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  for (int i = 0; i < 20000 || (inside == 0 && absl::Now() < end); ++i) {
    const std::string text = Read(roots, swapped / "secret.txt");
    EXPECT_NE(text, "secret");
    if (text == "inside") ++inside;
  }
  stop = true;
  swapper.join();
  EXPECT_GT(inside, 0);
}

// In a process of its own: the limit stays.
TEST_F(ReadRootsTest, TheLimitHoldsForFoldersToo) {
  LimitReads(ReadRoots({folder_ / "in"}));
  EXPECT_TRUE(CheckMayRead(folder_ / "in/deep").ok());
  EXPECT_EQ(std::string(CheckMayRead(folder_ / "out").message()),
            Outside(folder_ / "out"));
  LimitReads(ReadRoots({"/"}));
  EXPECT_TRUE(CheckMayRead(folder_ / "out").ok());
}

TEST_F(ReadRootsTest, TheLimitHoldsForEveryReadOfTheProcess) {
  const auto attempt = [this] {
    LimitReads(ReadRoots({folder_ / "in"}));
    const bool inside = ReadFile(folder_ / "in/a.txt").ok() &&
                        MappedFile::Open(folder_ / "in/a.txt").ok();
    const fs::path secret = folder_ / "out/secret.txt";
    const bool outside = ReadFile(secret).ok() ||
                         MappedFile::Open(secret).ok() ||
                         ReadSmallFile(secret, 99).ok();
    _exit(inside && !outside ? 7 : 8);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(7), "");
  EXPECT_TRUE(ReadFile(folder_ / "out/secret.txt").ok());
}

}  // namespace
}  // namespace mpsd::base
