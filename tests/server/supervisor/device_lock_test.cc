// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/device_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/supervisor/spawned_process.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using fakes::FakeClock;

// A process that holds `lock` as its descriptor `number`.
std::unique_ptr<SpawnedProcess> Holder(int number, UniqueFd lock) {
  SpawnedProcess::Options options;
  options.program = "/bin/sleep";
  options.args = {"60"};
  options.fds[number] = std::move(lock);
  auto process = SpawnedProcess::Spawn(std::move(options));
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

class DeviceLockTest : public testing::Test {
 protected:
  DeviceLock Of(const std::string& path) {
    return DeviceLock(
        path, [this](const std::string& line) { log_.push_back(line); });
  }
  bool Locks(DeviceLock& lock) {
    auto fd = lock.Acquire();
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() && fd->valid();
  }

  const fs::path folder_ = testing_support::FreshFolder("device_lock");
  const std::string path_ = folder_ / "gpu.lock";
  std::vector<std::string> log_;
};

TEST_F(DeviceLockTest, OneAtATime) {
  DeviceLock ours = Of(path_), theirs = Of(path_);
  auto held = ours.Acquire();
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(held->valid());
  const absl::Status refused = theirs.Acquire().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("another mpsd uses the GPU"));
  held->reset();
  EXPECT_TRUE(Locks(theirs));
  DeviceLock off = Of("");
  EXPECT_FALSE(Locks(off));
  EXPECT_THAT(log_, IsEmpty());
}

// The daemon that started it may be gone.
TEST_F(DeviceLockTest, TheWorkerHoldsIt) {
  DeviceLock lock = Of(path_);
  auto worker = Holder(5, *lock.Acquire());
  EXPECT_TRUE(absl::IsUnavailable(lock.Acquire().status()));
  worker->Kill();
  EXPECT_TRUE(Locks(lock));
}

TEST_F(DeviceLockTest, AnyUserMayLockItAndNobodyWriteIt) {
  const mode_t before = umask(077);
  DeviceLock lock = Of(path_);
  EXPECT_TRUE(Locks(lock));
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0444u);
  EXPECT_EQ(info.st_size, 0);
}

// Another user's doing: nothing is followed, waited for or held.
TEST_F(DeviceLockTest, WhatIsNoLockFileIsSaidOnceAndHoldsNobody) {
  const std::string target = folder_ / "target";
  fs::create_symlink(target, folder_ / "link");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0644), 0);
  fs::create_directory(folder_ / "folder");
  for (const char* name : {"link", "pipe", "folder", "none/lock"}) {
    log_.clear();
    DeviceLock lock = Of(folder_ / name);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(Locks(lock)) << name;
    EXPECT_THAT(
        log_,
        ElementsAre(HasSubstr("nothing keeps other daemons off the GPU: " +
                              (folder_ / name).string())));
  }
  EXPECT_FALSE(fs::exists(target));
}

class WorkerLeaseTest : public testing::Test {
 protected:
  // A process that inherits the lease as its fd 4.
  std::unique_ptr<SpawnedProcess> HolderOfLease() {
    auto lease = lease_.Acquire();
    EXPECT_TRUE(lease.ok()) << lease.status();
    auto process = Holder(4, UniqueFd(dup(lease->get())));
    EXPECT_TRUE(WorkerLease::Record(*lease, process->pid()).ok());
    return process;
  }

  FakeClock clock_;
  WorkerLease lease_{testing_support::FreshFolder("lease") / "lease",
                     absl::Seconds(10), clock_};
};

TEST_F(WorkerLeaseTest, IsFreeAgainWhenTheDescriptorIsClosed) {
  { EXPECT_TRUE(lease_.Acquire().ok()); }
  EXPECT_TRUE(lease_.Acquire().ok());
  WorkerLease lease("/no/such/folder/lease", absl::Seconds(1), clock_);
  EXPECT_TRUE(absl::IsNotFound(lease.Acquire().status()));
}

TEST_F(WorkerLeaseTest, BelongsToTheWorkerThatInheritedIt) {
  auto holder = HolderOfLease();
  auto refused = lease_.Acquire();
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(std::to_string(holder->pid())));
  holder->Kill();
  EXPECT_TRUE(lease_.Acquire().ok());
}

TEST_F(WorkerLeaseTest, PatienceEnds) {
  auto holder = HolderOfLease();
  EXPECT_FALSE(lease_.Acquire().ok());
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(lease_.Acquire().ok());
  EXPECT_EQ(holder->Poll(), std::nullopt);
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(std::string(lease_.Acquire().status().message()),
              HasSubstr("killed"));
  EXPECT_EQ(WTERMSIG(holder->Wait()), SIGKILL);
  EXPECT_TRUE(lease_.Acquire().ok());
}

}  // namespace
}  // namespace mpsd::supervisor
