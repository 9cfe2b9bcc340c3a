// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/gates_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/time/clock.h"

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

absl::Status Wanted() { return absl::OkStatus(); }

// The worker is a script.
class GatesRunTest : public testing::Test {
 protected:
  GatesRunTest()
      : folder_(fs::path(testing::TempDir()) /
                ("gates-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    options_.worker_path = folder_ / "worker";
    options_.environment = {{"PATH", "/usr/bin:/bin"}, {"A", "b"}};
  }
  ~GatesRunTest() override { fs::remove_all(folder_); }
  void Worker(const std::string& script) const {
    std::ofstream(options_.worker_path) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(options_.worker_path, fs::perms::owner_all);
  }
  GatesRun Run() {
    auto run = RunGates(options_, Wanted);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : GatesRun{};
  }
  const fs::path folder_;
  GatesOptions options_;
};

TEST_F(GatesRunTest, TellsWhatTheWorkerPrintsAndHowItEnds) {
  Worker("echo \"$@\" $A; echo seen by nobody >&2; exit 3");
  const GatesRun run = Run();
  EXPECT_EQ(run.output, "--gates b\n");
  ASSERT_TRUE(run.status.has_value());
  EXPECT_TRUE(WIFEXITED(*run.status));
  EXPECT_EQ(WEXITSTATUS(*run.status), 3);
}

TEST_F(GatesRunTest, ACrashLeavesWhatWasPrinted) {
  Worker("echo first; kill -ABRT $$");
  const GatesRun run = Run();
  EXPECT_EQ(run.output, "first\n");
  ASSERT_TRUE(run.status.has_value());
  EXPECT_TRUE(WIFSIGNALED(*run.status));
}

TEST_F(GatesRunTest, AWorkerThatHangsIsKilledWithItsChildren) {
  Worker("sleep 600 & echo $!; wait");
  options_.limit = absl::Milliseconds(500);
  const absl::Time start = absl::Now();
  GatesRun run = Run();
  // A shell on a busy machine may need longer than that for its first words.
  while (run.output.empty() && options_.limit < absl::Minutes(1)) {
    options_.limit *= 4;
    run = Run();
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(5));
  EXPECT_FALSE(run.status.has_value());
  ASSERT_FALSE(run.output.empty());
  const pid_t child = std::stoi(run.output);
  // Gone, or a zombie whose new parent is slow.
  const auto is_gone = [child] {
    if (kill(child, 0) != 0) return true;
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    const std::string text((std::istreambuf_iterator<char>(status)), {});
    return text.find("State:\tZ") != std::string::npos;
  };
  for (int i = 0; i < 6000 && !is_gone(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(is_gone());
}

// What the worker started may outlive it and hold its output open.
TEST_F(GatesRunTest, AChildThatHoldsTheOutputHoldsNobodyUp) {
  Worker("sleep 60 & echo done");
  const absl::Time start = absl::Now();
  const GatesRun run = Run();
  EXPECT_EQ(run.output, "done\n");
  EXPECT_EQ(run.status, 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(45));
}

TEST_F(GatesRunTest, AFloodIsCutAndEnded) {
  Worker("yes");
  options_.limit = absl::Seconds(1);
  GatesRun run = Run();
  // On a busy machine less than the most may have come by then.
  while (run.output.size() < (256u << 10) &&
         options_.limit < absl::Minutes(1)) {
    options_.limit *= 4;
    run = Run();
  }
  EXPECT_EQ(run.output.size(), 256u << 10);
  EXPECT_FALSE(run.status.has_value());
}

TEST_F(GatesRunTest, NobodyWaitsTheWorkerGoes) {
  Worker("sleep 60");
  int asked = 0;
  const auto run = RunGates(options_, [&] {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("gone");
  });
  EXPECT_TRUE(absl::IsCancelled(run.status())) << run.status();
}

TEST_F(GatesRunTest, AProgramThatIsNotThereIsNamed) {
  options_.worker_path = folder_ / "none";
  EXPECT_THAT(std::string(RunGates(options_, Wanted).status().message()),
              HasSubstr("none"));
}

TEST_F(GatesRunTest, HasAFolderForItsTemporaryFiles) {
  options_.temporary_dir = folder_ / "tmp";
  Worker("touch \"$TMPDIR/left\" && echo \"$TMPDIR\"");
  EXPECT_EQ(Run().output, (folder_ / "tmp/gates").string() + "\n");
  EXPECT_FALSE(fs::exists(folder_ / "tmp/gates"));
}

}  // namespace
}  // namespace mpsd::supervisor
