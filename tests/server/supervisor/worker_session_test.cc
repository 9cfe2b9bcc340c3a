// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "core/base/awake_time.h"
#include "core/base/clock.h"
#include "core/host/environment.h"
#include "server/supervisor/process_launcher.h"
#include "tests/server/supervisor/fake_listener.h"

// The fake worker's whole repertoire, with real processes.

namespace mpsd::supervisor {
namespace {

// --- log tail ----------------------------------------------------------------

class LogTailTest : public testing::Test {
 protected:
  ~LogTailTest() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  const std::string path_ =
      testing::TempDir() + "/log_tail-" + std::to_string(getpid());
};

TEST_F(LogTailTest, AShortLogIsWhole) {
  Write("one\ntwo\n");
  EXPECT_EQ(ReadLogTail(path_, 0), "one\ntwo\n");
}

TEST_F(LogTailTest, StartsWhereItIsTold) {
  Write("one\ntwo\n");
  EXPECT_EQ(ReadLogTail(path_, 4), "two\n");
  EXPECT_EQ(ReadLogTail(path_, 8), "");
  EXPECT_EQ(ReadLogTail(path_, 99), "");
}

TEST_F(LogTailTest, ALongLogIsCutAtALine) {
  std::string text;
  while (text.size() < 3 * kLogTailBytes) text += "0123456789abcde\n";
  Write(text + "end\n");
  const std::string tail = ReadLogTail(path_, 0);
  EXPECT_LE(tail.size(), kLogTailBytes);
  EXPECT_GT(tail.size(), kLogTailBytes - 20);
  EXPECT_EQ(tail.substr(0, 16), "0123456789abcde\n");
  EXPECT_EQ(tail.substr(tail.size() - 4), "end\n");
}

TEST_F(LogTailTest, OneEndlessLineIsCutAnywhere) {
  Write(std::string(2 * kLogTailBytes, 'x'));
  EXPECT_EQ(ReadLogTail(path_, 0), std::string(kLogTailBytes, 'x'));
}

TEST_F(LogTailTest, BytesBecomeText) {
  Write("\xff\t\x1b[2J\n");
  EXPECT_EQ(ReadLogTail(path_, 0), "\\xff\t\\x1b[2J\n");
}

TEST_F(LogTailTest, NoFileNoTail) {
  EXPECT_EQ(ReadLogTail("/no/such/log", 0), "");
}

// --- worker session ----------------------------------------------------------

namespace fs = std::filesystem;
using jobs::ExitReason;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(150);

class WorkerSessionTest : public testing::Test {
 protected:
  WorkerSessionTest()
      : folder_(
            fs::path(testing::TempDir()) /
            ("session-" + std::to_string(getpid()) + "-" +
             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WorkerSessionTest() override { fs::remove_all(folder_); }

  void Launch(const std::string& mode, absl::Duration hang_timeout = kLong,
              absl::Duration exit_grace = kLong) {
    std::ofstream(folder_ / "job.json") << spec_;
    ProcessLauncher::Options options;
    options.worker_path = worker_path_;
    options.environment = host::CurrentEnvironment();
    options.environment["FAKE_WORKER_MODE"] = mode;
    options.lease_path = folder_ / "lease";
    options.temporary_dir = folder_ / "tmp";
    options.exit_grace = exit_grace;
    options.awake_time = awake_time_;
    ProcessLauncher launcher(options, base::Clock::Real());
    jobs::LaunchRequest request;
    request.job_id = "J";
    request.spec_path = folder_ / "job.json";
    request.output_dir = folder_ / "out";
    request.log_path = folder_ / "log";
    request.hang_timeout = hang_timeout;
    auto worker = launcher.Launch(request, listener_);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  jobs::WorkerListener::Result Outcome(const std::string& mode,
                                       absl::Duration hang_timeout = kLong,
                                       absl::Duration exit_grace = kLong) {
    Launch(mode, hang_timeout, exit_grace);
    return listener_.WaitForExit();
  }

  // A run of minutes: it goes on until the test ends it, however late that is.
  void LaunchLongRun() {
    spec_ = R"({"training": {"max_steps": 1000000}})";
    Launch("ok-slow");
  }

  const fs::path folder_;
  std::string spec_ = "{}";
  std::string worker_path_ = std::string(MPSD_TEST_BINARY_DIR) + "/fake_worker";
  std::function<absl::Duration()> awake_time_ = base::AwakeTime;
  FakeListener listener_;
  std::unique_ptr<jobs::Worker> worker_;
};

TEST_F(WorkerSessionTest, FilesAreNamedAsTheUserSpellsThem) {
  std::ofstream(folder_ / "input_names.json")
      << R"({"up/e2.csv": "./e2.csv", "train.jsonl": "train.jsonl"})";
  const auto result = Outcome("rejected-input");
  EXPECT_EQ(result.message, "./e2.csv:2: no label");
  EXPECT_THAT(listener_.warnings(),
              testing::ElementsAre("train.jsonl is short"));
}

TEST_F(WorkerSessionTest, ReportsAWholeRunInOrder) {
  const auto result = Outcome("ok");
  EXPECT_EQ(result.reason, ExitReason::kDone) << result.message;
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.outcome.output_path, (folder_ / "out/adapter").string());
  EXPECT_EQ(result.outcome.train_loss, 0.75);
  EXPECT_EQ(result.outcome.eval_loss_before, 2);
  EXPECT_EQ(result.outcome.eval_loss_after, 0.5);
  EXPECT_EQ(listener_.identity().worker_version, "0.1.0-fake");
  EXPECT_THAT(listener_.devices(), testing::ElementsAre("cpu"));
  ASSERT_THAT(listener_.progress(), SizeIs(5));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(listener_.progress()[i].step, i + 1);
  EXPECT_EQ(listener_.progress()[0].memory.current_allocated_bytes, 1 << 20);
  EXPECT_THAT(listener_.evaluated(), SizeIs(2));
  EXPECT_THAT(listener_.checkpoints(), SizeIs(1));
}

TEST_F(WorkerSessionTest, WarningsAreHandedOn) {
  EXPECT_EQ(Outcome("warn").reason, ExitReason::kDone);
  EXPECT_THAT(listener_.warnings(),
              testing::ElementsAre("torch is not\\namused\\x1b[31m",
                                   "memory grows", "memory grows"));
}

TEST_F(WorkerSessionTest, NamesTheSignalAndTheLogsEnd) {
  const auto result = Outcome("crash-segv");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("SIGSEGV"));
  EXPECT_THAT(result.message, HasSubstr("about to crash"));
}

TEST_F(WorkerSessionTest, AnAssertionIsACrash) {
  const auto result = Outcome("crash-abort");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("SIGABRT"));
  EXPECT_THAT(result.message, HasSubstr("MPSGraph assertion failed"));
}

TEST_F(WorkerSessionTest, AnExitStatusIsACrash) {
  const auto result = Outcome("exit-1");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("exited with status 1"));
}

TEST_F(WorkerSessionTest, SuccessWithoutAResultIsACrash) {
  const auto result = Outcome("exit-0");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("exited with status 0 before"));
}

TEST_F(WorkerSessionTest, SilenceIsHung) {
  const auto result = Outcome("hang", kShort);
  EXPECT_EQ(result.reason, ExitReason::kHung);
  EXPECT_THAT(result.message, HasSubstr("stopped reporting"));
}

TEST_F(WorkerSessionTest, SilenceBeforeHelloIsHung) {
  EXPECT_EQ(Outcome("mute", kShort).reason, ExitReason::kHung);
}

TEST_F(WorkerSessionTest, GarbageIsAProtocolError) {
  const auto result = Outcome("garbage");
  EXPECT_EQ(result.reason, ExitReason::kProtocolError);
  EXPECT_THAT(result.message, Not(HasSubstr("\xff")));
}

TEST_F(WorkerSessionTest, ACutLineIsDropped) {
  const auto result = Outcome("half-line");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(listener_.progress(), SizeIs(1));
}

TEST_F(WorkerSessionTest, AnotherVersionIsAProtocolError) {
  const auto result = Outcome("bad-version");
  EXPECT_EQ(result.reason, ExitReason::kProtocolError);
  EXPECT_THAT(result.message, HasSubstr("speaks version 99"));
}

TEST_F(WorkerSessionTest, HelloComesFirstAndOnce) {
  EXPECT_THAT(Outcome("no-hello").message, HasSubstr("was no Hello"));
  EXPECT_THAT(listener_.progress(), IsEmpty());
}

TEST_F(WorkerSessionTest, ASecondHelloIsAProtocolError) {
  EXPECT_EQ(Outcome("hello-twice").reason, ExitReason::kProtocolError);
}

TEST_F(WorkerSessionTest, TheLastWordIsTheLast) {
  const auto result = Outcome("talk-after-done");
  EXPECT_EQ(result.reason, ExitReason::kProtocolError);
  EXPECT_THAT(listener_.progress(), IsEmpty());
}

TEST_F(WorkerSessionTest, StoppingUnaskedIsAProtocolError) {
  EXPECT_EQ(Outcome("unasked-stop").reason, ExitReason::kProtocolError);
}

TEST_F(WorkerSessionTest, ClosingTheStreamAndStayingIsAProtocolError) {
  const auto result = Outcome("close-fd", kLong, kShort);
  EXPECT_EQ(result.reason, ExitReason::kProtocolError);
  EXPECT_THAT(result.message, HasSubstr("stayed alive"));
}

TEST_F(WorkerSessionTest, FailuresKeepTheirKind) {
  const auto result = Outcome("rejected");
  EXPECT_EQ(result.reason, ExitReason::kRejected);
  EXPECT_EQ(result.message, "train.jsonl:3: no field messages");
}

TEST_F(WorkerSessionTest, OutOfMemoryKeepsItsKind) {
  EXPECT_EQ(Outcome("oom").reason, ExitReason::kOutOfMemory);
}

TEST_F(WorkerSessionTest, NonFiniteKeepsItsKind) {
  EXPECT_EQ(Outcome("nonfinite").reason, ExitReason::kNonFinite);
}

TEST_F(WorkerSessionTest, AnInternalErrorIsACrash) {
  const auto result = Outcome("internal");
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("INTERNAL ASSERT FAILED"));
}

TEST_F(WorkerSessionTest, AFloodOnStderrStopsNobody) {
  EXPECT_EQ(Outcome("stderr-flood").reason, ExitReason::kDone);
  EXPECT_GT(fs::file_size(folder_ / "log"), 20000 * 200);
}

TEST_F(WorkerSessionTest, OnlyTheLogsEndIsQuoted) {
  const auto result = Outcome("flood-then-crash");
  EXPECT_THAT(result.message, HasSubstr("last words"));
  EXPECT_LT(result.message.size(), 5000);
}

TEST_F(WorkerSessionTest, AnEarlierAttemptsLogIsNotQuoted) {
  std::ofstream(folder_ / "log") << "from long ago\n";
  EXPECT_THAT(Outcome("crash-abort").message, Not(HasSubstr("long ago")));
}

TEST_F(WorkerSessionTest, ADoneWorkerThatLingersIsKilledAndDone) {
  const auto result = Outcome("linger", kLong, kShort);
  EXPECT_EQ(result.reason, ExitReason::kDone);
  EXPECT_THAT(result.message, HasSubstr("SIGKILL"));
}

TEST_F(WorkerSessionTest, PreemptLeavesACheckpoint) {
  LaunchLongRun();
  ASSERT_TRUE(listener_.WaitForProgress());
  worker_->Preempt(kLong);
  const auto result = listener_.WaitForExit();
  EXPECT_EQ(result.reason, ExitReason::kPreempted);
  EXPECT_EQ(result.message, "stopped at a checkpoint");
  EXPECT_THAT(listener_.checkpoints(), Not(IsEmpty()));
}

TEST_F(WorkerSessionTest, PauseIsAcknowledgedAndEnds) {
  LaunchLongRun();
  ASSERT_TRUE(listener_.WaitForProgress());
  worker_->Pause();
  ASSERT_TRUE(listener_.WaitForHold());
  const size_t steps = listener_.progress().size();
  worker_->Resume();
  ASSERT_TRUE(listener_.WaitForProgress(steps + 1)) << "it trains on";
  EXPECT_THAT(listener_.holds(), testing::ElementsAre(true, false));
  worker_->Cancel(kLong);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, APauseBeforeStartIsSaidAfterIt) {
  // The worker says Hello once the pause is said.
  const std::string go = folder_ / "go", late = folder_ / "late_worker";
  std::ofstream(late) << "#!/bin/sh\nuntil [ -e '" << go
                      << "' ]; do sleep 0.01; done\nexec '" << worker_path_
                      << "' \"$@\"\n";
  fs::permissions(late, fs::perms::owner_all);
  worker_path_ = late;
  LaunchLongRun();
  worker_->Pause();
  std::ofstream(go) << "";
  ASSERT_TRUE(listener_.WaitForHold());
  EXPECT_LE(listener_.progress().size(), 1);
  worker_->Preempt(kLong);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kPreempted);
  worker_->Pause();  // nothing hears it
}

TEST_F(WorkerSessionTest, CancelNeedsNoCheckpoint) {
  LaunchLongRun();
  ASSERT_TRUE(listener_.WaitForProgress());
  worker_->Cancel(kLong);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, CancelAfterPreemptWins) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_.WaitForStage());
  // The grace of the first does not end before the second is said.
  worker_->Preempt(kLong);
  worker_->Cancel(kShort);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, TheGraceEndsForTheTalkativeToo) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_.WaitForStage());
  worker_->Preempt(kShort);
  const auto result = listener_.WaitForExit();
  EXPECT_EQ(result.reason, ExitReason::kPreempted);
  EXPECT_THAT(result.message, HasSubstr("within the grace period"));
}

TEST_F(WorkerSessionTest, LimitsStandStillWhileTheMachineSleeps) {
  std::atomic<int64_t> awake = 0;  // milliseconds
  awake_time_ = [&] { return absl::Milliseconds(awake.load()); };
  Launch("slow-exit");
  ASSERT_TRUE(listener_.WaitForStage());
  worker_->Preempt(kShort);
  absl::SleepFor(3 * kShort);
  EXPECT_THAT(listener_.exits(), IsEmpty());
  awake = absl::ToInt64Milliseconds(kShort);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kPreempted);
  worker_.reset();  // it asks for the time
}

TEST_F(WorkerSessionTest, ASecondCancelMayShortenTheGrace) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_.WaitForStage());
  worker_->Cancel(kLong);
  worker_->Cancel(absl::ZeroDuration());
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kCancelled);
  EXPECT_THAT(listener_.exits(), SizeIs(1));
}

TEST_F(WorkerSessionTest, BeforeStartThereIsNothingToWaitFor) {
  Launch("mute");
  worker_->Cancel(kLong);
  EXPECT_EQ(listener_.WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, DestroyingKillsAndReportsOnce) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_.WaitForStage());
  worker_.reset();
  ASSERT_THAT(listener_.exits(), SizeIs(1));
  EXPECT_EQ(listener_.exits()[0].reason, ExitReason::kPreempted);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a zombie";
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace mpsd::supervisor
