// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/process_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/supervisor/fake_listener.h"

namespace mpsd::supervisor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProcessLauncherTest : public testing::Test {
 protected:
  ProcessLauncherTest()
      : folder_(fs::path(testing::TempDir()) /
                ("launcher-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
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
  ~ProcessLauncherTest() override { fs::remove_all(folder_); }

  const fs::path folder_;
  ProcessLauncher::Options options_;
  jobs::LaunchRequest request_;
  FakeListener listener_;
};

TEST_F(ProcessLauncherTest, TheWorkerHoldsTheDeviceUntilItIsGone) {
  options_.environment["FAKE_WORKER_MODE"] = "slow-exit";
  ProcessLauncher launcher(options_, base::Clock::Real());
  EXPECT_TRUE(launcher.Ready().ok());
  auto worker = launcher.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_TRUE(absl::IsUnavailable(launcher.Ready()));
  FakeListener other;
  EXPECT_TRUE(absl::IsUnavailable(launcher.Launch(request_, other).status()));
  worker->reset();
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
  options_.environment["FAKE_WORKER_MODE"] = "leak-check";
  ProcessLauncher launcher(options_, base::Clock::Real());
  auto worker = launcher.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const auto result = listener_.WaitForExit();
  EXPECT_EQ(result.reason, jobs::ExitReason::kDone) << result.message;
}

TEST_F(ProcessLauncherTest, TheEnvironmentIsThatOfASharedMac) {
  for (const bool allow : {false, true}) {
    fs::remove(request_.log_path);
    options_.environment = {{"FAKE_WORKER_MODE", "environment"}};
    request_.allow_cpu_fallback = allow;
    ProcessLauncher launcher(options_, base::Clock::Real());
    FakeListener listener;
    auto worker = launcher.Launch(request_, listener);
    ASSERT_TRUE(worker.ok()) << worker.status();
    listener.WaitForExit();
    std::ifstream log(request_.log_path);
    const std::string text((std::istreambuf_iterator<char>(log)), {});
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
  options_.environment = {{"FAKE_WORKER_MODE", "environment"},
                          {"TMPDIR", "/tmp"}};
  // What a daemon left that was killed.
  const fs::path parent = options_.temporary_dir;
  fs::create_directories(parent / "J0/deep");
  ProcessLauncher launcher(options_, base::Clock::Real());
  EXPECT_TRUE(fs::is_empty(parent));
  auto worker = launcher.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const fs::path folder = parent / request_.job_id;
  listener_.WaitForExit();
  std::ifstream log(request_.log_path);
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_THAT(text, HasSubstr("\nTMPDIR=" + folder.string() + "\n"));
  EXPECT_FALSE(fs::exists(folder)) << "it goes with the worker";
}

TEST_F(ProcessLauncherTest, TheTemporaryFolderIsThereAndPrivate) {
  options_.environment["FAKE_WORKER_MODE"] = "slow-exit";
  ProcessLauncher launcher(options_, base::Clock::Real());
  auto worker = launcher.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
  const fs::path folder = fs::path(options_.temporary_dir) / request_.job_id;
  for (const fs::path& path : {folder.parent_path(), folder}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
  std::ofstream(folder / "left") << "x";
  worker->reset();
  EXPECT_FALSE(fs::exists(folder));
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
  auto worker = first.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
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
  worker->reset();
  EXPECT_TRUE(second.Ready().ok());
}

TEST_F(ProcessLauncherTest, TheWorkerHearsWhatItMayRead) {
  options_.environment["FAKE_WORKER_MODE"] = "read-roots";
  const std::string job = folder_;
  for (const std::vector<std::string>& roots :
       {std::vector<std::string>{}, {"/models", "/data"}}) {
    fs::remove(request_.log_path);
    request_.results_read = {"/jobs/A/out/model"};
    options_.read_roots = roots;
    ProcessLauncher launcher(options_, base::Clock::Real());
    FakeListener listener;
    auto worker = launcher.Launch(request_, listener);
    ASSERT_TRUE(worker.ok()) << worker.status();
    listener.WaitForExit();
    std::ifstream log(request_.log_path);
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    if (roots.empty()) {
      EXPECT_THAT(text, testing::Not(HasSubstr("may read")));
    } else {
      EXPECT_THAT(text, HasSubstr("may read /models\nmay read /data\n"
                                  "may read " +
                                  job + "\nmay read /jobs/A/out/model\n"));
    }
  }
}

TEST_F(ProcessLauncherTest, AppendsToTheJobsLog) {
  std::ofstream(request_.log_path) << "before\n";
  ProcessLauncher launcher(options_, base::Clock::Real());
  auto worker = launcher.Launch(request_, listener_);
  ASSERT_TRUE(worker.ok()) << worker.status();
  listener_.WaitForExit();
  std::ifstream log(request_.log_path);
  std::string first, second;
  std::getline(log, first);
  std::getline(log, second);
  EXPECT_EQ(first, "before");
  EXPECT_EQ(second, "fake worker starts at step 0");
}

}  // namespace
}  // namespace mpsd::supervisor
