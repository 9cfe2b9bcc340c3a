// SPDX-License-Identifier: Apache-2.0
#include "server/command_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CommandRunnerTest : public testing::Test {
 protected:
  CommandRunnerTest() { std::signal(SIGPIPE, SIG_IGN); }
  ~CommandRunnerTest() override {
    std::signal(SIGPIPE, SIG_DFL);
    fs::remove(file_);
  }
  absl::StatusOr<notify::CommandEnd> Run(
      const std::string& script, const std::string& input = "",
      absl::Duration timeout = absl::Minutes(2)) {
    notify::CommandCall call;
    call.argv = {"/bin/sh", "-c", script, "sh", "an \"argument\"; false"};
    call.environment = {{"PATH", "/usr/bin:/bin"}, {"MPSD_TEXT", "$(false)"}};
    call.input = input;
    call.timeout = timeout;
    return RunCommand(call, interrupted_);
  }

  std::atomic<bool> interrupted_ = false;
  const std::string file_ =
      testing::TempDir() + "/command-" + std::to_string(getpid());
};

TEST_F(CommandRunnerTest, PassesInputArgumentsAndEnvironmentAsTheyAre) {
  const auto end =
      Run("cat; echo \"|$1|$MPSD_TEXT|\"; env | wc -l >&2", "{\"a\": 1}\n");
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->wait_status, 0);
  EXPECT_FALSE(end->timed_out);
  EXPECT_THAT(end->output,
              HasSubstr("{\"a\": 1}\n|an \"argument\"; false|$(false)|\n"));
}

TEST_F(CommandRunnerTest, GivesNoDescriptorOfOurs) {
  const auto end = Run("ls /dev/fd/ | wc -l");
  ASSERT_TRUE(end.ok());
  int count = 0;
  ASSERT_TRUE(absl::SimpleAtoi(end->output, &count)) << end->output;
  EXPECT_LE(count, 4);  // ls opens the folder itself
}

TEST_F(CommandRunnerTest, TheProgramNeedNotReadItsInput) {
  const auto end = Run("exit 3", std::string(1 << 20, 'x'));
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(WEXITSTATUS(end->wait_status), 3);
}

TEST_F(CommandRunnerTest, KeepsTheBeginningOfWhatAProgramWrites) {
  const auto end = Run("echo first; yes | head -c 3000000; exit 1");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(WEXITSTATUS(end->wait_status), 1);
  EXPECT_TRUE(end->output.starts_with("first\ny\n"));
  EXPECT_EQ(end->output.size(), 4096u);
}

TEST_F(CommandRunnerTest, KillsTheWholeGroupAtTheTimeout) {
  const absl::Time start = absl::Now();
  const std::string script = "trap '' TERM; sleep 300 & echo $! > " + file_ +
                             "; echo begun; while :; do sleep 1; done";
  absl::Duration timeout = absl::Milliseconds(500);
  auto end = Run(script, "", timeout);
  // A shell on a busy machine may need longer than that for its first words.
  while (end.ok() && end->output.empty() && timeout < absl::Minutes(1)) {
    timeout *= 4;
    end = Run(script, "", timeout);
  }
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->timed_out);
  EXPECT_THAT(end->output, HasSubstr("begun"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(4));
  const auto written = base::ReadFile(file_);
  ASSERT_TRUE(written.ok());
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(*written, &pid));
  // It may be a zombie until init reaps it.
  for (int i = 0; i < 3000 && kill(pid, 0) == 0; ++i) {
    const auto stat = base::ReadFile(absl::StrCat("/proc/", pid, "/stat"));
    if (stat.ok() && stat->find(") Z") != stat->npos) break;
    absl::SleepFor(absl::Milliseconds(10));
    EXPECT_LT(i, 2999) << "the sleep goes on";
  }
}

TEST_F(CommandRunnerTest, AnInterruptEndsIt) {
  std::thread interrupter([this] {
    absl::SleepFor(absl::Milliseconds(100));
    interrupted_ = true;
  });
  const absl::Time start = absl::Now();
  const auto end = Run("exec sleep 300");
  interrupter.join();
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->timed_out);
  EXPECT_LT(absl::Now() - start, absl::Minutes(1)) << "by the timeout";
}

// A program that leaves one behind which keeps the output open.
TEST_F(CommandRunnerTest, WaitsForTheProgramAlone) {
  const absl::Time start = absl::Now();
  const auto end = Run("sleep 300 & echo $! ; exit 0");
  ASSERT_TRUE(end.ok());
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  int pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(end->output, &pid));
  kill(pid, SIGKILL);
}

TEST_F(CommandRunnerTest, LeavesNoZombie) {
  ASSERT_TRUE(Run("exit 0").ok());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(CommandRunnerTest, SaysThatAProgramIsNotThere) {
  notify::CommandCall call;
  call.argv = {"/nowhere/tell"};
  call.timeout = absl::Seconds(1);
  const auto end = RunCommand(call, interrupted_);
  EXPECT_TRUE(absl::IsNotFound(end.status()));
  EXPECT_THAT(std::string(end.status().message()), HasSubstr("/nowhere/tell"));
}

}  // namespace
}  // namespace mpsd
