// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/process_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/supervisor/fake_listener.h"

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProcessLauncherTest : public testing::Test {
 protected:
  ProcessLauncherTest() {
    options_.worker_path = std::string(MPSD_TEST_BINARY_DIR) + "/fake_worker";
    options_.lease_path = folder_ / "lease";
    options_.temporary_dir = folder_ / "tmp";
    request_ = {"J",
                jobs::JobKind::kTraining,
                folder_ / "job.json",
                folder_ / "out",
                folder_ / "log",
                absl::Seconds(60),
                absl::ZeroDuration(),
                false};
  }
  std::unique_ptr<jobs::Worker> Launch(ProcessLauncher& launcher) {
    auto worker = launcher.Launch(request_, listener_);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return worker.ok() ? *std::move(worker) : nullptr;
  }
  // The log of a worker in `mode`, which ends by itself.
  std::string LogOf(const std::string& mode) {
    options_.environment["FAKE_WORKER_MODE"] = mode;
    ProcessLauncher launcher(options_, base::Clock::Real());
    FakeListener listener;
    const auto worker = launcher.Launch(request_, listener);
    EXPECT_TRUE(worker.ok()) << worker.status();
    result_ = listener.WaitForExit();
    return base::ReadFile(request_.log_path).value_or("");
  }

  const fs::path folder_ = testing_support::FreshFolder("launcher");
  ProcessLauncher::Options options_;
  jobs::LaunchRequest request_;
  FakeListener listener_;
  jobs::WorkerListener::Result result_;
};

TEST_F(ProcessLauncherTest, TheWorkerHoldsTheDeviceUntilItIsGone) {
  options_.environment["FAKE_WORKER_MODE"] = "slow-exit";
  ProcessLauncher launcher(options_, base::Clock::Real());
  EXPECT_TRUE(launcher.Ready().ok());
  auto worker = Launch(launcher);
  EXPECT_TRUE(absl::IsUnavailable(launcher.Ready()));
  FakeListener other;
  EXPECT_TRUE(absl::IsUnavailable(launcher.Launch(request_, other).status()));
  // It has a private folder for its temporary files, which goes with it.
  const fs::path folder = fs::path(options_.temporary_dir) / request_.job_id;
  for (const fs::path& path : {folder.parent_path(), folder}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
  std::ofstream(folder / "left") << "x";
  worker.reset();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(launcher.Ready().ok());
}

TEST_F(ProcessLauncherTest, AMissingWorkerIsNamed) {
  options_.worker_path = "/no/such/mpsd-worker";
  ProcessLauncher launcher(options_, base::Clock::Real());
  auto worker = launcher.Launch(request_, listener_);
  EXPECT_TRUE(absl::IsNotFound(worker.status()));
  EXPECT_THAT(std::string(worker.status().message()),
              HasSubstr("/no/such/mpsd-worker"));
  EXPECT_TRUE(launcher.Ready().ok());
}

TEST_F(ProcessLauncherTest, GivesTheWorkerNoOtherDescriptors) {
  UniqueFd leaky(fcntl(0, F_DUPFD, 40));
  ASSERT_TRUE(leaky.valid());
  LogOf("leak-check");
  EXPECT_EQ(result_.reason, jobs::ExitReason::kDone) << result_.message;
}

TEST_F(ProcessLauncherTest, TheEnvironmentIsThatOfASharedMac) {
  for (const bool allow : {false, true}) {
    fs::remove(request_.log_path);
    request_.allow_cpu_fallback = allow;
    const std::string text = LogOf("environment");
    for (const char* variable :
         {"PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.95\n",
          "PYTORCH_MPS_LOW_WATERMARK_RATIO=0.75\n", "PYTORCH_MPS_FAST_MATH=0\n",
          "AGX_RELAX_CDM_CTXSTORE_TIMEOUT=1\n",
          allow ? "PYTORCH_ENABLE_MPS_FALLBACK=1\n"
                : "PYTORCH_ENABLE_MPS_FALLBACK=0\n"}) {
      EXPECT_THAT(text, HasSubstr(variable));
    }
  }
}

TEST_F(ProcessLauncherTest, AWorkerHasAFolderForItsTemporaryFiles) {
  options_.environment = {{"TMPDIR", "/tmp"}};
  // What a daemon left that was killed.
  const fs::path parent = options_.temporary_dir;
  fs::create_directories(parent / "J0/deep");
  EXPECT_THAT(
      LogOf("environment"),
      HasSubstr("\nTMPDIR=" + (parent / request_.job_id).string() + "\n"));
  EXPECT_TRUE(fs::is_empty(parent)) << "it goes with the worker";
}

// Two daemons, each with a state folder of its own.
TEST_F(ProcessLauncherTest, AnotherDaemonsWorkerHoldsTheGpu) {
  options_.environment["FAKE_WORKER_MODE"] = "slow-exit";
  options_.device_lock = folder_ / "gpu.lock";
  ProcessLauncher::Options other = options_;
  other.lease_path = folder_ / "other-lease";
  ProcessLauncher first(options_, base::Clock::Real());
  ProcessLauncher second(other, base::Clock::Real());
  EXPECT_TRUE(second.Ready().ok());
  auto worker = Launch(first);
  FakeListener none;
  for (const absl::Status& status :
       {second.Ready(), second.Launch(request_, none).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("another mpsd uses the GPU"));
  }
  // Its own daemon says what it is.
  EXPECT_THAT(std::string(first.Ready().message()),
              HasSubstr("a worker of an earlier mpsd"));
  worker.reset();
  EXPECT_TRUE(second.Ready().ok());
}

TEST_F(ProcessLauncherTest, TheWorkerHearsWhatItMayRead) {
  request_.results_read = {"/jobs/A/out/model"};
  EXPECT_THAT(LogOf("read-roots"), testing::Not(HasSubstr("may read")));
  options_.read_roots = {"/models", "/data"};
  EXPECT_THAT(LogOf("read-roots"),
              HasSubstr("may read /models\nmay read /data\nmay read " +
                        folder_.string() + "\nmay read /jobs/A/out/model\n"));
}

TEST_F(ProcessLauncherTest, AppendsToTheJobsLog) {
  std::ofstream(request_.log_path) << "before\n";
  EXPECT_THAT(LogOf("ok"),
              testing::StartsWith("before\nfake worker starts at step 0\n"));
}

}  // namespace
}  // namespace mpsd::supervisor
