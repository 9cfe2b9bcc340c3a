// SPDX-License-Identifier: Apache-2.0
#include "server/state_dir.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/descriptor_limit.h"
#include "server/signals.h"
#include "server/socket_group.h"
#include "server/worker_surroundings.h"
#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StateDirTest : public testing::Test {
 protected:
  const fs::path base_ = testing_support::FreshFolder("state") / "dir";
};

TEST_F(StateDirTest, IsMadeForItsOwnerAlone) {
  auto dir = StateDir::Open(base_ / "a" / "state");
  ASSERT_TRUE(dir.ok()) << dir.status();
  struct stat info;
  ASSERT_EQ(stat((*dir)->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST_F(StateDirTest, ASecondHolderIsRefusedByName) {
  // The number of a daemon that is gone is replaced.
  fs::create_directories(base_);
  std::ofstream(base_ / "lock") << "999999999999\n";
  auto first = StateDir::Open(base_);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = StateDir::Open(base_);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("pid " + std::to_string(getpid()) + ")"));
  first->reset();
  EXPECT_TRUE(StateDir::Open(base_).ok());
}

TEST_F(StateDirTest, AFileInItsPlaceIsAnError) {
  std::ofstream{base_} << "x";
  auto dir = StateDir::Open(base_);
  EXPECT_FALSE(dir.ok());
  EXPECT_THAT(std::string(dir.status().message()), HasSubstr(base_.string()));
}

class DescriptorLimitTest : public testing::Test {
 protected:
  DescriptorLimitTest() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimitTest() override { setrlimit(RLIMIT_NOFILE, &before_); }
  static rlim_t Soft() {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit before_;
};

TEST_F(DescriptorLimitTest, TheSoftLimitIsRaised) {
  const rlimit few = {128, before_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const int limit = RaiseDescriptorLimit();
  EXPECT_GT(limit, 128);
  EXPECT_EQ(Soft(), static_cast<rlim_t>(limit));
}

TEST_F(DescriptorLimitTest, AHigherOneStays) {
  const int limit = RaiseDescriptorLimit();
  EXPECT_GE(static_cast<rlim_t>(limit),
            std::min<rlim_t>(before_.rlim_cur, 1 << 30));
  EXPECT_EQ(RaiseDescriptorLimit(), limit);
  // Some are reserved.
  EXPECT_EQ(FirstReservedDescriptor(256), 192);
  EXPECT_EQ(FirstReservedDescriptor(1024), 768);
  EXPECT_EQ(FirstReservedDescriptor(65'536), 4096);
}

TEST(SocketGroupTest, AGroupHasANameAndANumber) {
  const group* own = getgrgid(0);
  ASSERT_NE(own, nullptr);
  const std::string name = own->gr_name;
  EXPECT_EQ(*GroupNamed(name), 0u);
  EXPECT_EQ(*GroupNamed("4711"), 4711u);
  for (const char* name : {"no such group", "", "-1"}) {
    const absl::Status status = GroupNamed(name).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("no group '" + std::string(name) + "'"));
  }
}

TEST(SocketGroupTest, MembersPassAFolderAndListNothing) {
  const fs::path folder = testing_support::FreshFolder("group");
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

class WorkerSurroundingsTest : public testing::Test {
 protected:
  WorkerSurroundingsTest() {
    setenv("HF_HUB_CACHE", "/cache", 1);
    config_.state_dir = "/state";
  }
  ~WorkerSurroundingsTest() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("MY_SECRET_TOKEN");
  }
  Config config_;
};

TEST_F(WorkerSurroundingsTest, JobsReadTheCacheBesideTheRoots) {
  config_.model_roots = {"/models"};
  config_.data_roots = {"/data"};
  const auto folders = FoldersJobsRead(config_);
  EXPECT_THAT(folders.models, ElementsAre("/models", "/cache"));
  EXPECT_THAT(folders.data, ElementsAre("/data"));
  EXPECT_THAT(FoldersWorkersRead(config_),
              ElementsAre("/state/blobs", "/state/models", "/models", "/cache",
                          "/data"));
  // A root of everything is any folder.
  config_.data_roots = {"/"};
  EXPECT_THAT(FoldersWorkersRead(config_), IsEmpty());
}

TEST_F(WorkerSurroundingsTest, WorkersHaveWhatTheTableNames) {
  setenv("MY_SECRET_TOKEN", "x", 1);
  EXPECT_FALSE(WorkersEnvironment(config_).contains("MY_SECRET_TOKEN"));
  config_.environment["MY_SECRET_TOKEN"] = "y";
  config_.environment["HF_HUB_CACHE"] = "/other";
  const host::Environment environment = WorkersEnvironment(config_);
  EXPECT_EQ(environment.at("MY_SECRET_TOKEN"), "y");
  EXPECT_EQ(environment.at("HF_HUB_CACHE"), "/other");
}

// Each in a process of its own: the signals stay blocked for its life.
void Nothing() {}

TEST(SignalsDeathTest, TheFirstIsReturned) {
  for (int number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(
        {
          BlockSignals();
          kill(getpid(), number);
          _exit(AwaitShutdownSignal(Nothing) == number ? 7 : 8);
        },
        testing::ExitedWithCode(7), "");
  }
}

TEST(SignalsDeathTest, TheSecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        BlockSignals();
        kill(getpid(), SIGTERM);
        AwaitShutdownSignal(Nothing);
        kill(getpid(), SIGHUP);  // does nothing
        kill(getpid(), SIGINT);
        sleep(60);
      },
      testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(SignalsDeathTest, AHangupReloadsAndNeverKills) {
  EXPECT_EXIT(
      {
        BlockSignals();
        int reloads = 0;
        kill(getpid(), SIGHUP);
        const int number = AwaitShutdownSignal(
            [&] { kill(getpid(), ++reloads < 3 ? SIGHUP : SIGTERM); });
        _exit(number == SIGTERM && reloads == 3 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

// nohup mpsd
TEST(SignalsDeathTest, AnIgnoredHangupStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        BlockSignals();
        int reloads = 0;
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGTERM);
        const int number = AwaitShutdownSignal([&] { ++reloads; });
        _exit(number == SIGTERM && reloads == 0 ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(SignalsDeathTest, ABrokenPipeKillsNobody) {
  EXPECT_EXIT(
      {
        BlockSignals();
        raise(SIGPIPE);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mpsd
