// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/tested_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Always ready; starts nothing.
class IdleLauncher final : public jobs::WorkerLauncher {
 public:
  absl::Status Ready() override { return ready; }
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest&, jobs::WorkerListener&) override {
    return absl::UnimplementedError("no worker here");
  }
  absl::Status ready;
};

// The worker is a script.
class TestedLauncherTest : public testing::Test {
 protected:
  TestedLauncherTest()
      : folder_(fs::path(testing::TempDir()) /
                ("tested-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    options_.worker_path = folder_ / "worker";
    options_.verdict_path = folder_ / "selftest.json";
    options_.log_path = folder_ / "selftest.log";
    options_.on_change = [this] {
      if (!done_.HasBeenNotified()) done_.Notify();
    };
    options_.on_pass = [this](const std::string& device, absl::Time time) {
      passed_.emplace_back(device, time);
    };
    options_.log = [this](const std::string& line) { line_ = line; };
  }
  ~TestedLauncherTest() override { fs::remove_all(folder_); }

  void Worker(const std::string& script) const {
    std::ofstream(options_.worker_path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(options_.worker_path, fs::perms::owner_all);
  }
  // What Ready() says when the test has ended.
  absl::Status Verdict() {
    TestedLauncher launcher(idle_, options_);
    EXPECT_TRUE(done_.WaitForNotificationWithTimeout(absl::Seconds(60)));
    return launcher.Ready();
  }

  const fs::path folder_;
  TestedLauncher::Options options_;
  IdleLauncher idle_;
  absl::Notification done_;
  std::string line_;
  std::vector<std::pair<std::string, absl::Time>> passed_;
};

TEST_F(TestedLauncherTest, ADeviceThatPassesIsReady) {
  Worker("echo \"$@\"; exit 0");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_EQ(line_, "self-test of the device: passed");
  std::ifstream log(options_.log_path);
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(text, "--selftest --verdict " + options_.verdict_path + "\n");
}

TEST_F(TestedLauncherTest, TheTestHasAFolderForItsTemporaryFiles) {
  options_.temporary_dir = folder_ / "tmp";
  Worker("touch \"$TMPDIR/left\" && echo \"$TMPDIR\"");
  EXPECT_TRUE(Verdict().ok());
  std::ifstream log(options_.log_path);
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(text, (folder_ / "tmp/selftest").string() + "\n");
  EXPECT_FALSE(fs::exists(folder_ / "tmp/selftest"));
}

// The worker leaves the verdict of an earlier start as it is.
TEST_F(TestedLauncherTest, TellsWhichDevicePassedAndWhen) {
  std::ofstream(options_.verdict_path)
      << R"({"passed": true, "identity": {"device": "mps"}})";
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, options_.verdict_path.c_str(), times, 0), 0);
  Worker("exit 0");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_THAT(passed_, testing::ElementsAre(testing::Pair(
                           "mps", absl::FromUnixSeconds(1'700'000'000))));
}

TEST_F(TestedLauncherTest, WithoutADeviceToTestNothingPassed) {
  Worker("exit 0");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_TRUE(passed_.empty());
}

TEST_F(TestedLauncherTest, AVerdictThatIsNoneIsNoPass) {
  for (const char* text : {"", "[]", "{\"identity\": 3}", "{\"identity\": {}}",
                           "{\"identity\": {\"device\": 5}}"}) {
    std::ofstream(options_.verdict_path) << text;
    Worker("exit 0");
    TestedLauncher launcher(idle_, options_);
    for (int i = 0; i < 6000 && !launcher.Ready().ok(); ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_TRUE(launcher.Ready().ok()) << text;
  }
  EXPECT_TRUE(passed_.empty());
}

TEST_F(TestedLauncherTest, AFailureIsNoPass) {
  Worker("echo '{\"identity\": {\"device\": \"mps\"}}' > \"$3\"; exit 1");
  EXPECT_FALSE(Verdict().ok());
  EXPECT_TRUE(passed_.empty());
}

TEST_F(TestedLauncherTest, OneThatFailsHoldsJobsAndSaysWhy) {
  Worker(
      "echo '{\"summary\": \"1 of 9 checks failed: bmm\"}' > \"$3\"; exit 1");
  const absl::Status status = Verdict();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("failed: 1 of 9 checks failed: bmm"),
                    HasSubstr("selftest.log"), HasSubstr("--skip-selftest")));
  EXPECT_EQ(line_, std::string(status.message()));
}

// Once the test has ended.
TestedLauncher::State Settled(const TestedLauncher& launcher) {
  for (int i = 0; i < 6000 && launcher.state().testing; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  return launcher.state();
}

TEST_F(TestedLauncherTest, WhoAsksHasTheDeviceTestedAgain) {
  Worker("echo \"$@\"; exit 0");
  TestedLauncher launcher(idle_, options_);
  EXPECT_TRUE(Settled(launcher).verdict.ok());
  // The device has become wrong meanwhile: no job starts any more.
  Worker("echo \"$@\"; exit 1");
  EXPECT_TRUE(launcher.TestAgain());
  EXPECT_TRUE(absl::IsFailedPrecondition(Settled(launcher).verdict));
  EXPECT_TRUE(absl::IsFailedPrecondition(launcher.Ready()));
  std::ifstream log(options_.log_path);
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(text,
            "--selftest --verdict " + options_.verdict_path + " --force\n");
}

TEST_F(TestedLauncherTest, WhileItTestsNoJobStartsAndNoOtherTest) {
  Worker("exit 0");
  TestedLauncher launcher(idle_, options_);
  EXPECT_TRUE(Settled(launcher).verdict.ok());
  const fs::path go = folder_ / "go";
  Worker("until [ -e '" + go.string() + "' ]; do sleep 0.01; done");
  EXPECT_TRUE(launcher.TestAgain());
  EXPECT_FALSE(launcher.TestAgain());
  EXPECT_TRUE(launcher.state().testing);
  EXPECT_TRUE(absl::IsUnavailable(launcher.Ready()));
  std::ofstream(go) << "";
  EXPECT_TRUE(Settled(launcher).verdict.ok());
  EXPECT_TRUE(launcher.Ready().ok());
}

TEST_F(TestedLauncherTest, ACrashIsAFailure) {
  Worker("kill -ABRT $$");
  const absl::Status status = Verdict();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 6"));
}

TEST_F(TestedLauncherTest, OneThatCannotRunIsAFailure) {
  Worker("exit 2");
  EXPECT_THAT(std::string(Verdict().message()), HasSubstr("exit status 2"));
}

TEST_F(TestedLauncherTest, AMissingWorkerIsAFailure) {
  EXPECT_THAT(std::string(Verdict().message()), HasSubstr("cannot run"));
}

TEST_F(TestedLauncherTest, OneThatHangsIsKilled) {
  options_.limit = absl::Milliseconds(20);
  Worker("exec sleep 60");
  EXPECT_THAT(std::string(Verdict().message()), HasSubstr("took longer"));
}

// Wrong for want of memory, say, and right a while later.
TEST_F(TestedLauncherTest, OneThatDidNotGoWellIsTriedAgain) {
  for (const char* fault : {"exit 1", "exit 2", "kill -ABRT $$"}) {
    fs::remove(folder_ / "tries");
    options_.retry_interval = absl::Milliseconds(1);
    Worker("echo x >> " + (folder_ / "tries").string() + "\n[ $(wc -l < " +
           (folder_ / "tries").string() + ") -ge 3 ] || { " + fault + "; }");
    TestedLauncher launcher(idle_, options_);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!launcher.Ready().ok() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_TRUE(launcher.Ready().ok()) << fault << launcher.Ready();
    EXPECT_EQ(fs::file_size(folder_ / "tries"), 6u);
  }
}

TEST_F(TestedLauncherTest, WhatIsSaidNamesWhatToDo) {
  options_.retry_interval = absl::Minutes(10);
  for (const char* fault : {"exit 1", "exit 2", "kill -ABRT $$"}) {
    Worker(fault);
    TestedLauncher launcher(idle_, options_);
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::IsUnavailable(launcher.Ready()) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_THAT(std::string(launcher.Ready().message()),
                AllOf(HasSubstr("tried again every 10m"),
                      HasSubstr("mpsd-worker --selftest"),
                      HasSubstr(options_.log_path)));
  }
}

TEST_F(TestedLauncherTest, NothingStartsBeforeItHasEnded) {
  Worker("exec sleep 60");
  TestedLauncher launcher(idle_, options_);
  EXPECT_TRUE(absl::IsUnavailable(launcher.Ready()));
  // And its end does not wait for the test's.
}

TEST_F(TestedLauncherTest, ThenTheLauncherBehindItDecides) {
  Worker("exit 0");
  idle_.ready = absl::UnavailableError("an earlier worker");
  EXPECT_EQ(Verdict(), idle_.ready);
}

}  // namespace
}  // namespace mpsd::supervisor
