// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/process_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/supervisor/fake_listener.h"

namespace mpsd::supervisor {
namespace {

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

  const fs::path folder_ = FreshFolder("device_lock");
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

TEST_F(DeviceLockTest, AnyUserMayLockItAndNoneWriteIt) {
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
TEST_F(DeviceLockTest, WhatIsNoLockFileIsLoggedOnceAndHoldsNoJob) {
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
  WorkerLease lease_{FreshFolder("lease") / "lease", absl::Seconds(10), clock_};
};

TEST_F(WorkerLeaseTest, IsFreeAgainWhenTheDescriptorIsClosed) {
  { EXPECT_TRUE(lease_.Acquire().ok()); }
  EXPECT_TRUE(lease_.Acquire().ok());
  WorkerLease lease("/no/such/folder/lease", absl::Seconds(1), clock_);
  EXPECT_TRUE(absl::IsNotFound(lease.Acquire().status()));
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

  const fs::path folder_ = FreshFolder("launcher");
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
  options_.read_roots = {"/models", "/data"};
  options_.closed_roots = {"/state"};
  EXPECT_THAT(LogOf("read-roots"),
              HasSubstr("may read /models\nmay read /data\nmay read " +
                        folder_.string() +
                        "\nmay read /jobs/A/out/model\nno other in /state\n"));
}

absl::Status Wanted() { return absl::OkStatus(); }

// The worker is a script.
class ScriptTest : public testing::Test {
 protected:
  std::string worker() const { return folder_ / "worker"; }
  void Worker(const std::string& script) const {
    std::ofstream(worker()) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(worker(), fs::perms::owner_all);
  }
  const fs::path folder_ = FreshFolder("script");
};

class GatesRunTest : public ScriptTest {
 protected:
  GatesRunTest() {
    options_.worker_path = worker();
    options_.environment = {{"PATH", "/usr/bin:/bin"}, {"A", "b"}};
  }
  GatesRun Run() {
    auto run = RunGates(options_, Wanted);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : GatesRun{};
  }
  GatesOptions options_;
};

TEST_F(GatesRunTest, ReturnsWhatTheWorkerPrintsAndHowItEnds) {
  Worker("echo \"$@\" $A; echo seen by no one >&2; exit 3");
  const GatesRun run = Run();
  EXPECT_EQ(run.output, "--gates b\n");
  ASSERT_TRUE(run.status.has_value());
  EXPECT_TRUE(WIFEXITED(*run.status));
  EXPECT_EQ(WEXITSTATUS(*run.status), 3);
}

// What the worker started may outlive it and hold its output open.
TEST_F(GatesRunTest, AChildThatHoldsTheOutputDelaysNoCaller) {
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

TEST_F(GatesRunTest, HasAFolderForItsTemporaryFiles) {
  options_.temporary_dir = folder_ / "tmp";
  Worker("touch \"$TMPDIR/left\" && echo \"$TMPDIR\"");
  EXPECT_EQ(Run().output, (folder_ / "tmp/gates").string() + "\n");
  EXPECT_FALSE(fs::exists(folder_ / "tmp/gates"));
}

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

class TestedLauncherTest : public ScriptTest {
 protected:
  TestedLauncherTest() {
    options_.worker_path = worker();
    options_.verdict_path = folder_ / "selftest.json";
    options_.log_path = folder_ / "selftest.log";
    options_.on_change = [this] {
      if (!done_->HasBeenNotified()) done_->Notify();
    };
    options_.on_pass = [this](const std::string& device, absl::Time time) {
      passed_.emplace_back(device, time);
    };
    options_.log = [this](const std::string& line) { line_ = line; };
  }

  // What Ready() says when the test has ended.
  absl::Status Verdict() {
    done_ = std::make_unique<absl::Notification>();
    TestedLauncher launcher(idle_, options_);
    EXPECT_TRUE(done_->WaitForNotificationWithTimeout(absl::Seconds(60)));
    return launcher.Ready();
  }
  std::string Log() const { return *base::ReadFile(options_.log_path); }

  TestedLauncher::Options options_;
  IdleLauncher idle_;
  std::unique_ptr<absl::Notification> done_ =
      std::make_unique<absl::Notification>();
  std::string line_;
  std::vector<std::pair<std::string, absl::Time>> passed_;
};

TEST_F(TestedLauncherTest, TheTestHasAFolderForItsTemporaryFiles) {
  options_.temporary_dir = folder_ / "tmp";
  Worker("touch \"$TMPDIR/left\" && echo \"$TMPDIR\"");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_EQ(Log(), (folder_ / "tmp/selftest").string() + "\n");
  EXPECT_FALSE(fs::exists(folder_ / "tmp/selftest"));
}

// The worker leaves the verdict of an earlier start as it is.
TEST_F(TestedLauncherTest, ReportsWhichDevicePassedAndWhen) {
  std::ofstream(options_.verdict_path)
      << R"({"passed": true, "identity": {"device": "mps"}})";
  const timespec times[] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, options_.verdict_path.c_str(), times, 0), 0);
  Worker("exit 0");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_THAT(passed_, testing::ElementsAre(testing::Pair(
                           "mps", absl::FromUnixSeconds(1'700'000'000))));
}

TEST_F(TestedLauncherTest, AVerdictThatIsNoneIsNoPass) {
  Worker("exit 0");
  for (const char* text : {"", "[]", "{\"identity\": 3}", "{\"identity\": {}}",
                           "{\"identity\": {\"device\": 5}}"}) {
    std::ofstream(options_.verdict_path) << text;
    EXPECT_TRUE(Verdict().ok()) << text;
  }
  EXPECT_TRUE(passed_.empty());
}

TEST_F(TestedLauncherTest, OneThatFailsHoldsJobsAndSaysWhy) {
  Worker(
      "echo '{\"summary\": \"1 of 9 checks failed: bmm\", \"identity\": "
      "{\"device\": \"mps\"}}' > \"$3\"; exit 1");
  const absl::Status status = Verdict();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("failed: 1 of 9 checks failed: bmm"),
                    HasSubstr("selftest.log"), HasSubstr("--skip-selftest")));
  EXPECT_EQ(line_, std::string(status.message()));
  EXPECT_TRUE(passed_.empty());
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
  EXPECT_EQ(Log(),
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

TEST_F(TestedLauncherTest, AFaultSaysWhatItIsAndWhatToDo) {
  EXPECT_THAT(std::string(Verdict().message()), HasSubstr("cannot run"));
  options_.retry_interval = absl::Minutes(10);
  const std::pair<const char*, const char*> faults[] = {
      {"exit 1", "failed"},
      {"exit 2", "exit status 2"},
      {"kill -ABRT $$", "signal 6"}};
  for (const auto& [script, words] : faults) {
    Worker(script);
    const absl::Status status = Verdict();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(words), HasSubstr("tried again every 10m"),
                      HasSubstr("mpsd-worker --selftest"),
                      HasSubstr(options_.log_path)));
  }
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

TEST_F(TestedLauncherTest, NothingStartsBeforeItHasEnded) {
  Worker("exec sleep 60");
  TestedLauncher launcher(idle_, options_);
  EXPECT_TRUE(absl::IsUnavailable(launcher.Ready()));
  // And its end does not wait for the test's.
}

TEST_F(TestedLauncherTest, ThenTheWrappedLauncherDecides) {
  Worker("exit 0");
  idle_.ready = absl::UnavailableError("an earlier worker");
  EXPECT_EQ(Verdict(), idle_.ready);
}

}  // namespace
}  // namespace mpsd::supervisor
