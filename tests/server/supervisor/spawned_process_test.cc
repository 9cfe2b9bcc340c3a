// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/spawned_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::supervisor {
namespace {

using testing::HasSubstr;

class TemporaryFolderTest : public testing::Test {
 protected:
  static mode_t ModeOf(const fs::path& path) {
    struct stat info {};
    lstat(path.c_str(), &info);
    return info.st_mode & 07777;
  }

  const fs::path base_ = FreshFolder("temporary");
  const fs::path parent_ = base_ / "tmp";
};

TEST_F(TemporaryFolderTest, WhatAnEarlierWorkerLeftIsGone) {
  fs::create_directories(parent_ / "J");
  fs::permissions(parent_, fs::perms::all);
  std::ofstream(parent_ / "J/old") << "x";
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(fs::is_empty(parent_ / "J"));
  EXPECT_EQ(ModeOf(parent_), 0700u);
}

TEST_F(TemporaryFolderTest, LinksAreRemovedAndNotFollowed) {
  fs::create_directories(base_ / "other");
  std::ofstream(base_ / "other/kept") << "x";
  fs::create_directories(parent_);
  fs::create_directory_symlink(base_ / "other", parent_ / "J");
  fs::create_directory_symlink(base_ / "other", parent_ / "K");
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_FALSE(fs::is_symlink(parent_ / "J"));
  fs::create_directory_symlink(base_ / "other", parent_ / "J/inner");
  folder->reset();
  TemporaryFolder::RemoveAll(parent_);
  EXPECT_TRUE(fs::is_empty(parent_));
  EXPECT_TRUE(fs::exists(base_ / "other/kept"));
}

TEST_F(TemporaryFolderTest, AParentThatIsALinkIsRefused) {
  fs::create_directories(base_ / "other/J");
  fs::create_directory_symlink(base_ / "other", parent_);
  EXPECT_FALSE(TemporaryFolder::Create(parent_, "J").ok());
  TemporaryFolder::RemoveAll(parent_);
  EXPECT_TRUE(fs::exists(base_ / "other/J"));
}

TEST_F(TemporaryFolderTest, AFolderThatTheWorkerClosedGoesToo) {
  auto folder = TemporaryFolder::Create(parent_, "J");
  ASSERT_TRUE(folder.ok());
  fs::create_directories(parent_ / "J/closed/inner");
  std::ofstream(parent_ / "J/closed/inner/file") << "x";
  fs::permissions(parent_ / "J/closed/inner", fs::perms::none);
  fs::permissions(parent_ / "J/closed", fs::perms::none);
  fs::permissions(parent_ / "J", fs::perms::none);
  folder->reset();
  EXPECT_FALSE(fs::exists(parent_ / "J"));
}

SpawnedProcess::Options Shell(const std::string& script) {
  SpawnedProcess::Options options;
  options.program = "/bin/sh";
  options.args = {"-c", script};
  return options;
}

std::unique_ptr<SpawnedProcess> Start(SpawnedProcess::Options options) {
  auto process = SpawnedProcess::Spawn(std::move(options));
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

// A process and the end of a pipe that reads its fd 1.
struct Piped {
  UniqueFd output;
  std::unique_ptr<SpawnedProcess> process;
};

Piped StartPiped(SpawnedProcess::Options options) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  options.fds[1] = UniqueFd(ends[1]);
  return {UniqueFd(ends[0]), Start(std::move(options))};
}

std::string OutputOf(SpawnedProcess::Options options) {
  const Piped piped = StartPiped(std::move(options));
  std::string output;
  char piece[256];
  for (ssize_t n; (n = read(piped.output.get(), piece, sizeof piece)) > 0;) {
    output.append(piece, n);
  }
  piped.process->Wait();
  return output;
}

TEST(SpawnedProcess, GivesTheExitStatusAndKeepsIt) {
  auto process = Start(Shell("exit 7"));
  const int status = process->Wait();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(process->Wait(), status);
  EXPECT_EQ(process->Kill(), status);
}

TEST(SpawnedProcess, NamesAProgramThatIsNotThere) {
  SpawnedProcess::Options options;
  options.program = "/no/such/worker";
  auto process = SpawnedProcess::Spawn(std::move(options));
  EXPECT_TRUE(absl::IsNotFound(process.status())) << process.status();
  EXPECT_THAT(std::string(process.status().message()),
              HasSubstr("/no/such/worker"));
}

TEST(SpawnedProcess, HasExactlyTheGivenEnvironment) {
  SpawnedProcess::Options options;
  options.program = "/usr/bin/env";
  options.environment = {{"B", "two words"}, {"A", ""}};
  EXPECT_EQ(OutputOf(std::move(options)), "A=\nB=two words\n");
}

TEST(SpawnedProcess, TakesDescriptorsWhoseNumbersCross) {
  int first[2], second[2];
  ASSERT_EQ(pipe(first), 0);
  ASSERT_EQ(pipe(second), 0);
  UniqueFd read_first(first[0]), read_second(second[0]);
  auto options = Shell("printf one >&" + std::to_string(second[1]) +
                       "; printf two >&" + std::to_string(first[1]));
  const int low = first[1], high = second[1];
  ASSERT_LT(high, 10) << "the shell reads one digit";
  options.fds[high] = UniqueFd(low);
  options.fds[low] = UniqueFd(high);
  Start(std::move(options))->Wait();
  char text[8] = {};
  EXPECT_EQ(read(read_first.get(), text, sizeof text), 3);
  EXPECT_EQ(std::string(text), "one");
  EXPECT_EQ(read(read_second.get(), text, sizeof text), 3);
  EXPECT_EQ(std::string(text), "two");
}

TEST(SpawnedProcess, DoesNotInheritBlockedSignals) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  auto process = Start(Shell("kill -TERM $$; exit 0"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const int status = process->Wait();
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(SpawnedProcess, PollAndWaitDoNotBlockAndTerminateEndsThePolite) {
  auto process = Start(Shell("exec sleep 60"));
  EXPECT_EQ(process->Poll(), std::nullopt);
  EXPECT_EQ(process->WaitFor(absl::Milliseconds(5)), std::nullopt);
  const int status = process->TerminateOrKill(absl::Seconds(60));
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(SpawnedProcess, KillFollowsForTheDeaf) {
  const Piped piped =
      StartPiped(Shell("trap '' TERM; echo; while :; do sleep 1; done"));
  char ready;
  ASSERT_EQ(read(piped.output.get(), &ready, 1), 1);
  const int status = piped.process->TerminateOrKill(absl::Milliseconds(50));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(SpawnedProcess, KillReachesTheWholeGroup) {
  const Piped piped = StartPiped(Shell("sleep 60 & echo; wait"));
  char byte;
  ASSERT_EQ(read(piped.output.get(), &byte, 1), 1);
  piped.process->Kill();
  // The grandchild held the other end.
  EXPECT_EQ(read(piped.output.get(), &byte, 1), 0);
}

TEST(SpawnedProcess, LeavesNoZombie) {
  Start(Shell("exec sleep 60")).reset();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(RunToEndTest, TimeInWhichThisProcessStoodStillDoesNotCount) {
  bool stood_still = false;
  Exchange exchange;
  exchange.out = [](std::string_view) { return absl::OkStatus(); };
  exchange.wanted = [&] {
    if (!std::exchange(stood_still, true)) {
      absl::SleepFor(absl::Milliseconds(1200));
    }
    return absl::OkStatus();
  };
  exchange.limit = absl::Seconds(1);
  const auto status = RunToEnd(Shell("sleep 1.4"), exchange);
  EXPECT_EQ(status.value_or(-1), 0) << status.status();
}

}  // namespace
}  // namespace mpsd::supervisor
