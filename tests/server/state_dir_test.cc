// SPDX-License-Identifier: Apache-2.0
#include "server/state_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "server/process.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd {

namespace {

class StateDirTest : public testing::Test {
 protected:
  const fs::path base_ = FreshFolder("state") / "dir";
};

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

// rm STATE/lock; mpsd
TEST_F(StateDirTest, ARemovedLockFileUnlocksNothing) {
  const auto first = StateDir::Open(base_);
  ASSERT_TRUE(first.ok()) << first.status();
  fs::remove(base_ / "lock");
  const absl::Status second = StateDir::Open(base_).status();
  EXPECT_TRUE(absl::IsUnavailable(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr("(pid unknown)"));
  EXPECT_TRUE((*first)->IsInPlace());
  fs::rename(base_, base_.parent_path() / "moved");
  EXPECT_FALSE((*first)->IsInPlace());
  EXPECT_TRUE(StateDir::Open(base_).ok());
  EXPECT_FALSE((*first)->IsInPlace());
}

// A volume that goes takes its descriptors along.
TEST_F(StateDirTest, AFolderBelowALostMountIsNotInPlace) {
  const auto dir = StateDir::Open(base_);
  ASSERT_TRUE(dir.ok()) << dir.status();
  struct stat state, file;
  ASSERT_EQ(stat(base_.c_str(), &state), 0);
  for (int fd = 3; fd < 100; ++fd) {
    if (fstat(fd, &file) == 0 && file.st_ino == state.st_ino) close(fd);
  }
  fs::rename(base_, base_.parent_path() / "lost");
  EXPECT_TRUE((*dir)->IsInPlace()) << "it may come back";
  fs::create_directory(base_);
  EXPECT_FALSE((*dir)->IsInPlace());
}

TEST_F(StateDirTest, OthersMayNoLongerWriteItsOwnFolder) {
  fs::create_directories(base_);
  for (mode_t mode : {0775, 0702, 0750}) {
    ASSERT_EQ(chmod(base_.c_str(), mode), 0);
    EXPECT_TRUE(StateDir::Open(base_).ok());
    struct stat info;
    ASSERT_EQ(stat(base_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, mode & 0755);
  }
}

TEST_F(StateDirTest, AFolderThatOthersMayWriteIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directories(base_);
  ASSERT_EQ(chown(base_.c_str(), 4711, 4711), 0);
  for (mode_t mode : {0770, 0702}) {
    ASSERT_EQ(chmod(base_.c_str(), mode), 0);
    const absl::Status refused = StateDir::Open(base_).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("chmod go-w"));
    EXPECT_TRUE(fs::is_empty(base_));
  }
  ASSERT_EQ(chmod(base_.c_str(), 0755), 0);
  EXPECT_TRUE(StateDir::Open(base_).ok());
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
  const fs::path folder = FreshFolder("group");
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

// Each in a process of its own: the signals stay blocked for its life.
void Nothing() {}

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

TEST(SignalsDeathTest, ABrokenPipeDoesNotKill) {
  EXPECT_EXIT(
      {
        BlockSignals();
        raise(SIGPIPE);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

constexpr char kId[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
constexpr int64_t kUnit = 256 << 10;

class StateUsageTest : public testing::Test {
 protected:
  static void Write(const fs::path& path, int64_t bytes) {
    fs::create_directories(path.parent_path());
    // Bytes that no file system can pack.
    std::string text(bytes, 0);
    std::mt19937 random(bytes);
    for (char& c : text) c = static_cast<char>(random());
    std::ofstream(path, std::ios::binary) << text;
    // A file system that allocates late now says what the file takes.
    const int fd = open(path.c_str(), O_RDWR);
    EXPECT_EQ(fsync(fd), 0);
    close(fd);
  }
  StateUsage MeasureAll() const {
    const std::atomic<bool> stop = false;
    auto usage = MeasureState(state_, stop);
    EXPECT_TRUE(usage.ok()) << usage.status();
    return usage.ok() ? *usage : StateUsage();
  }
  std::map<std::string, int64_t> Measure() const {
    return MeasureAll().by_kind;
  }

  const fs::path state_ = FreshFolder("usage");
  const fs::path job_ = state_ / "jobs" / kId;
};

// About `bytes`: a file system counts in blocks, and some for itself.
MATCHER_P(IsAbout, bytes, "") {
  return arg >= bytes && arg <= bytes + 64 * 1024;
}

MATCHER_P2(HasBytes, bytes, checkpoint_bytes, "") {
  return testing::Matches(IsAbout(bytes))(arg.bytes) &&
         testing::Matches(IsAbout(checkpoint_bytes))(arg.checkpoint_bytes);
}

TEST_F(StateUsageTest, EachFileCountsForItsKind) {
  Write(job_ / "out/checkpoints/step-5/state.safetensors", 1 * kUnit);
  Write(job_ / "out/checkpoints/.step-6.tmp/state.safetensors", 1 * kUnit);
  Write(job_ / "out/adapter/adapter_model.safetensors", 3 * kUnit);
  Write(job_ / "out/metrics.jsonl", 1 * kUnit);
  Write(job_ / "log", 5 * kUnit);
  Write(state_ / "log/mpsd.log", 1 * kUnit);
  Write(state_ / "blobs/ab/abcd", 7 * kUnit);
  Write(state_ / "blobs/incoming/abcd.1", 1 * kUnit);
  Write(state_ / "mpsd.db", 8 * kUnit);
  Write(state_ / "mpsd.db-wal", 1 * kUnit);
  Write(state_ / "ballast", 9 * kUnit);
  Write(job_ / "job.json", 1 * kUnit);
  Write(state_ / "jobs" / ("." + std::string(kId) + ".x.tmp") / "out/big",
        1 * kUnit);
  EXPECT_THAT(Measure(), ElementsAre(Pair("checkpoints", IsAbout(2 * kUnit)),
                                     Pair("database", IsAbout(9 * kUnit)),
                                     Pair("logs", IsAbout(6 * kUnit)),
                                     Pair("other", IsAbout(11 * kUnit)),
                                     Pair("results", IsAbout(4 * kUnit)),
                                     Pair("uploads", IsAbout(8 * kUnit))));
}

TEST_F(StateUsageTest, AJobHasItsFolderWithoutItsInputs) {
  const fs::path other = state_ / "jobs/01J0000000000000000000000Z";
  Write(job_ / "out/checkpoints/step-5/state.safetensors", 2 * kUnit);
  Write(job_ / "log", kUnit);
  Write(job_ / "inputs/train.jsonl", 8 * kUnit);
  Write(other / "out/adapter/adapter_model.safetensors", 4 * kUnit);
  Write(state_ / "jobs/.leftover.tmp/out/big", 3 * kUnit);
  Write(state_ / "log/mpsd.log", kUnit);
  const StateUsage usage = MeasureAll();
  EXPECT_THAT(
      usage.by_job,
      ElementsAre(Pair(kId, HasBytes(3 * kUnit, 2 * kUnit)),
                  Pair("01J0000000000000000000000Z", HasBytes(4 * kUnit, 0))));
  EXPECT_THAT(usage.TotalBytes(), IsAbout((3 + 4 + 3 + 1) * kUnit));
}

TEST_F(StateUsageTest, AnUploadCountsOnceHoweverManyUseIt) {
  Write(state_ / "blobs/ab/abcd", 4 * kUnit);
  for (const fs::path& use :
       {job_ / "inputs/train.jsonl", state_ / "files/file-1",
        state_ / "models/models--m/pushed/1/config.json"}) {
    fs::create_directories(use.parent_path());
    fs::create_hard_link(state_ / "blobs/ab/abcd", use);
  }
  const auto usage = Measure();
  EXPECT_THAT(usage.at("uploads"), IsAbout(4 * kUnit));
  EXPECT_THAT(usage.at("other"), IsAbout(0));
}

TEST_F(StateUsageTest, FollowsNoLink) {
  const fs::path outside = FreshFolder("outside");
  Write(outside / "big", 4 * kUnit);
  fs::create_directories(job_ / "out");
  fs::create_symlink(outside / "big", job_ / "out/file");
  fs::create_directory_symlink(outside, job_ / "out/folder");
  fs::create_directory_symlink(state_, job_ / "out/round");
  fs::create_directory_symlink(outside, state_ / "blobs");
  const auto usage = Measure();
  EXPECT_THAT(usage.at("results"), IsAbout(0));
  EXPECT_THAT(usage.at("uploads"), IsAbout(0));
  EXPECT_THAT(usage.at("other"), IsAbout(0));
}

// Nothing opens what is no folder: a pipe without a writer would never return.
TEST_F(StateUsageTest, APipeIsNotOpenedAndAHoleTakesNoRoom) {
  fs::create_directories(job_ / "out");
  ASSERT_EQ(mkfifo((job_ / "out/pipe").c_str(), 0600), 0);
  EXPECT_EQ(Measure().at("results"), 0);
  // A hole takes no room.
  std::ofstream(job_ / "out/sparse").put('x');
  fs::resize_file(job_ / "out/sparse", int64_t{1} << 40);
  EXPECT_LT(Measure().at("results"), kUnit);
}

TEST_F(StateUsageTest, FoldersWithoutEndAreLeftOut) {
  fs::path deep = job_ / "out";
  for (int i = 0; i < 200; ++i) deep /= "d";
  Write(job_ / "out/d/file", kUnit);
  Write(deep / "file", kUnit);
  EXPECT_THAT(Measure().at("results"), IsAbout(kUnit));
}

TEST_F(StateUsageTest, FilesMayGoMeanwhile) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    for (int i = 0; i < 30; ++i) {
      for (int n = 0; n < 20; ++n) {
        const fs::path folder = job_ / "out" / std::to_string(n);
        fs::create_directories(folder);
        std::ofstream(folder / "file") << "x";
      }
      fs::remove_all(job_ / "out");
    }
    done = true;
  });
  while (!done) Measure();
  other.join();
}

TEST_F(StateUsageTest, AMissingStateFolderIsAnError) {
  const std::atomic<bool> stop = false;
  EXPECT_EQ(MeasureState(state_ / "missing", stop).status().code(),
            absl::StatusCode::kNotFound);
  // It stops on request.
  Write(state_ / "mpsd.db", 1);
  const std::atomic<bool> stopped = true;
  EXPECT_EQ(MeasureState(state_, stopped).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace

}  // namespace mpsd
