// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_session.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "absl/time/clock.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/host/environment.h"
#include "server/supervisor/process_launcher.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/server/supervisor/fake_listener.h"

// The fake worker's whole repertoire, with real processes.

namespace mpsd::supervisor {
namespace {

using jobs::ExitReason;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(150);

class WorkerSessionTest : public testing::Test {
 protected:
  void Launch(const std::string& mode, absl::Duration hang_timeout = kLong,
              absl::Duration exit_grace = kLong) {
    worker_.reset();
    listener_.emplace();
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
    request.model_folder = model_folder_;
    request.model_name = "org/tiny";
    auto worker = launcher.Launch(request, *listener_);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  jobs::WorkerListener::Result Outcome(const std::string& mode,
                                       absl::Duration hang_timeout = kLong,
                                       absl::Duration exit_grace = kLong) {
    Launch(mode, hang_timeout, exit_grace);
    return listener_->WaitForExit();
  }

  // A run of minutes: it continues until the test ends it, however late that
  // is.
  void LaunchLongRun() {
    spec_ = R"({"training": {"max_steps": 1000000}})";
    Launch("ok-slow");
  }

  const fs::path folder_ = FreshFolder("session");
  std::string spec_ = "{}", model_folder_;
  std::string worker_path_ = std::string(MPSD_TEST_BINARY_DIR) + "/fake_worker";
  std::function<absl::Duration()> awake_time_ = base::AwakeTime;
  std::optional<FakeListener> listener_;  // of the last worker
  std::unique_ptr<jobs::Worker> worker_;
};

TEST_F(WorkerSessionTest, FilesAreNamedAsTheUserSpellsThem) {
  std::ofstream(folder_ / "input_names.json")
      << R"({"up/e2.csv": "./e2.csv", "train.jsonl": "train.jsonl"})";
  const auto result = Outcome("rejected-input");
  EXPECT_EQ(result.message, "./e2.csv:2: no label");
  EXPECT_THAT(listener_->warnings(),
              testing::ElementsAre("train.jsonl is short"));
}

TEST_F(WorkerSessionTest, TheModelHasItsName) {
  model_folder_ = folder_ / "inputs/up";
  EXPECT_EQ(Outcome("rejected-input").message, "org/tiny/e2.csv:2: no label");
}

TEST_F(WorkerSessionTest, ReportsAWholeRunInOrder) {
  const auto result = Outcome("ok");
  EXPECT_EQ(result.reason, ExitReason::kDone) << result.message;
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.outcome.output_path, (folder_ / "out/adapter").string());
  EXPECT_EQ(result.outcome.train_loss, 0.75);
  EXPECT_EQ(result.outcome.eval_loss_before, 2);
  EXPECT_EQ(result.outcome.eval_loss_after, 0.5);
  EXPECT_EQ(listener_->identity().worker_version, "0.1.0-fake");
  EXPECT_THAT(listener_->devices(), testing::ElementsAre("cpu"));
  ASSERT_THAT(listener_->progress(), SizeIs(5));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(listener_->progress()[i].step, i + 1);
  EXPECT_EQ(listener_->progress()[0].memory.current_allocated_bytes, 1 << 20);
  EXPECT_THAT(listener_->evaluated(), SizeIs(2));
  EXPECT_THAT(listener_->checkpoints(), SizeIs(1));
}

TEST_F(WorkerSessionTest, EachEndHasItsReasonAndItsWords) {
  const struct {
    const char* mode;
    ExitReason reason;
    std::vector<std::string> words;
    absl::Duration hang_timeout = kLong, exit_grace = kLong;
    std::optional<size_t> steps = std::nullopt;
  } cases[] = {
      {"crash-segv", ExitReason::kCrashed, {"SIGSEGV", "about to crash"}},
      {"crash-abort",
       ExitReason::kCrashed,
       {"SIGABRT", "MPSGraph assertion failed"}},
      {"exit-1", ExitReason::kCrashed, {"exited with status 1"}},
      {"exit-0", ExitReason::kCrashed, {"exited with status 0 before"}},
      {"half-line", ExitReason::kCrashed, {}, kLong, kLong, 1},
      {"internal", ExitReason::kCrashed, {"INTERNAL ASSERT FAILED"}},
      {"hang", ExitReason::kHung, {"stopped reporting"}, kShort},
      {"mute", ExitReason::kHung, {}, kShort},
      {"garbage", ExitReason::kProtocolError, {}},
      {"bad-version", ExitReason::kProtocolError, {"speaks version 99"}},
      {"no-hello",
       ExitReason::kProtocolError,
       {"was no Hello"},
       kLong,
       kLong,
       0},
      {"hello-twice", ExitReason::kProtocolError, {}},
      {"talk-after-done", ExitReason::kProtocolError, {}, kLong, kLong, 0},
      {"unasked-stop", ExitReason::kProtocolError, {}},
      {"close-fd", ExitReason::kProtocolError, {"stayed alive"}, kLong, kShort},
      {"rejected", ExitReason::kRejected, {"train.jsonl:3: no field messages"}},
      {"oom", ExitReason::kOutOfMemory, {}},
      {"nonfinite", ExitReason::kNonFinite, {}},
      {"linger", ExitReason::kDone, {"SIGKILL"}, kLong, kShort},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.mode);
    const auto result = Outcome(c.mode, c.hang_timeout, c.exit_grace);
    EXPECT_EQ(result.reason, c.reason);
    for (const std::string& words : c.words) {
      EXPECT_THAT(result.message, HasSubstr(words));
    }
    EXPECT_THAT(result.message, Not(HasSubstr("\xff")));
    if (c.steps) {
      EXPECT_THAT(listener_->progress(), SizeIs(*c.steps));
    }
  }
}

TEST_F(WorkerSessionTest, AFloodOnStderrDoesNotBlock) {
  EXPECT_EQ(Outcome("stderr-flood").reason, ExitReason::kDone);
  EXPECT_GT(fs::file_size(folder_ / "log"), 20000 * 200);
}

TEST_F(WorkerSessionTest, OnlyTheEndOfThisAttemptsLogIsQuoted) {
  std::ofstream(folder_ / "log") << "from long ago\n";
  EXPECT_THAT(Outcome("crash-abort").message, Not(HasSubstr("long ago")));
  const auto result = Outcome("flood-then-crash");
  EXPECT_THAT(result.message, HasSubstr("last words"));
  EXPECT_LT(result.message.size(), 5000);
}

TEST_F(WorkerSessionTest, PreemptLeavesACheckpoint) {
  LaunchLongRun();
  ASSERT_TRUE(listener_->WaitForProgress());
  worker_->Preempt(kLong);
  const auto result = listener_->WaitForExit();
  EXPECT_EQ(result.reason, ExitReason::kPreempted);
  EXPECT_EQ(result.message, "stopped at a checkpoint");
  EXPECT_THAT(listener_->checkpoints(), Not(IsEmpty()));
}

TEST_F(WorkerSessionTest, SoDoesACancelThatGivesTime) {
  LaunchLongRun();
  ASSERT_TRUE(listener_->WaitForProgress());
  worker_->Cancel(kLong);
  const auto result = listener_->WaitForExit();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_THAT(result.message, HasSubstr("it has a checkpoint of step "));
  EXPECT_THAT(listener_->checkpoints(), Not(IsEmpty()));
}

TEST_F(WorkerSessionTest, PauseIsAcknowledgedAndEnds) {
  LaunchLongRun();
  ASSERT_TRUE(listener_->WaitForProgress());
  worker_->Pause();
  ASSERT_TRUE(listener_->WaitForHold());
  const size_t steps = listener_->progress().size();
  worker_->Resume();
  ASSERT_TRUE(listener_->WaitForProgress(steps + 1)) << "it trains on";
  EXPECT_THAT(listener_->holds(), testing::ElementsAre(true, false));
  worker_->Cancel(kLong);
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kCancelled);
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
  ASSERT_TRUE(listener_->WaitForHold());
  EXPECT_LE(listener_->progress().size(), 1);
  worker_->Preempt(kLong);
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kPreempted);
  worker_->Pause();  // without effect
}

TEST_F(WorkerSessionTest, CancelAfterPreemptWins) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_->WaitForStage());
  // The grace of the first does not end before the second is said.
  worker_->Preempt(kLong);
  worker_->Cancel(kShort);
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, TheGraceEndsForTheTalkativeToo) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_->WaitForStage());
  worker_->Preempt(kShort);
  const auto result = listener_->WaitForExit();
  EXPECT_EQ(result.reason, ExitReason::kPreempted);
  EXPECT_THAT(result.message, HasSubstr("within the grace period"));
}

TEST_F(WorkerSessionTest, LimitsDoNotAdvanceWhileTheMachineSleeps) {
  std::atomic<int64_t> awake = 0;  // milliseconds
  awake_time_ = [&] { return absl::Milliseconds(awake.load()); };
  Launch("slow-exit");
  ASSERT_TRUE(listener_->WaitForStage());
  worker_->Preempt(kShort);
  absl::SleepFor(3 * kShort);
  EXPECT_THAT(listener_->exits(), IsEmpty());
  awake = absl::ToInt64Milliseconds(kShort);
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kPreempted);
  worker_.reset();  // it asks for the time
}

// As after SIGSTOP and SIGCONT of both programs.
TEST_F(WorkerSessionTest, TimeInWhichMpsdItselfStoodStillCountsForNoWorker) {
  std::atomic<int64_t> awake = 0;  // milliseconds
  awake_time_ = [&] { return absl::Milliseconds(awake.load()); };
  Launch("hang", absl::Seconds(1));
  ASSERT_TRUE(listener_->WaitForProgress());
  absl::SleepFor(absl::Milliseconds(300));  // until the session polls
  awake += 3'600'000;
  absl::SleepFor(absl::Seconds(2));
  EXPECT_THAT(listener_->exits(), IsEmpty());
  awake += 1'500;
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kHung);
  worker_.reset();  // it asks for the time
}

TEST_F(WorkerSessionTest, ASecondCancelMayShortenTheGrace) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_->WaitForStage());
  worker_->Cancel(kLong);
  worker_->Cancel(absl::ZeroDuration());
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kCancelled);
  EXPECT_THAT(listener_->exits(), SizeIs(1));
}

TEST_F(WorkerSessionTest, BeforeStartThereIsNothingToWaitFor) {
  Launch("mute");
  worker_->Cancel(kLong);
  EXPECT_EQ(listener_->WaitForExit().reason, ExitReason::kCancelled);
}

TEST_F(WorkerSessionTest, DestroyingKillsAndReportsOnce) {
  Launch("slow-exit");
  ASSERT_TRUE(listener_->WaitForStage());
  worker_.reset();
  ASSERT_THAT(listener_->exits(), SizeIs(1));
  EXPECT_EQ(listener_->exits()[0].reason, ExitReason::kPreempted);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a zombie";
  EXPECT_EQ(errno, ECHILD);
}

template <typename Report>
Report Cleaned(Report report) {
  Clean(report);
  return report;
}

TEST(CleanReport, TextsAreCutAtTheirLimits) {
  struct Text {
    size_t limit;
    std::function<std::string(const std::string&)> of;
  };
  const Text texts[] = {
      {limits::kMessageBytes,
       [](const std::string& t) {
         return Cleaned(report::Failure{report::FailureKind::kInternal, t})
             .message;
       }},
      {limits::kMessageBytes,
       [](const std::string& t) { return CleanText(t); }},
      {limits::kWarningBytes,
       [](const std::string& t) { return CleanWarning(t); }},
      {limits::kStageBytes, [](const std::string& t) { return CleanStage(t); }},
      {limits::kVersionBytes,
       [](const std::string& t) { return CleanVersion(t); }},
      {limits::kVersionBytes,
       [](const std::string& t) {
         report::Progress progress;
         progress.device = t;
         return Cleaned(progress).device;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         return Cleaned(report::Evaluated{1, 0, 0, 0, {{t, 1}}})
             .metrics[0]
             .first;
       }},
      {limits::kMetricNameBytes,
       [](const std::string& t) {
         report::Progress progress;
         progress.cpu_fallback_ops[t] = 1;
         return Cleaned(progress).cpu_fallback_ops.begin()->first;
       }},
  };
  for (size_t i = 0; i < std::size(texts); ++i) {
    const auto& [limit, of] = texts[i];
    const std::string whole(limit, 'x');
    EXPECT_EQ(of(whole), whole) << i;
    EXPECT_EQ(of(whole + "x"), std::string(limit - 3, 'x') + "…") << i;
    const std::string hostile = of(std::string(5 << 20, '\x1b'));
    EXPECT_LE(hostile.size(), limit) << i;
    EXPECT_TRUE(base::IsPrintable(hostile)) << i;
    EXPECT_EQ(of("\xe2\x80\xae\xc2\x9b\xff"), "\\u202e\\u009b\\xff") << i;
  }
}

TEST(CleanReport, ListsEndAtTheirLimits) {
  report::Evaluated evaluated;
  for (size_t i = 0; i < limits::kMetrics; ++i) {
    evaluated.metrics.emplace_back(std::to_string(i), i);
  }
  EXPECT_EQ(Cleaned(evaluated).metrics, evaluated.metrics);
  report::Outcome outcome;
  outcome.metrics = evaluated.metrics;
  outcome.metrics.emplace_back("one more", 0);
  EXPECT_EQ(Cleaned(outcome).metrics, evaluated.metrics);
  report::Progress progress;
  for (size_t i = 0; i <= limits::kFallbackOps; ++i) {
    progress.cpu_fallback_ops[std::to_string(i)] = 1;
  }
  EXPECT_EQ(Cleaned(progress).cpu_fallback_ops.size(), limits::kFallbackOps);
  report::Checkpointed checkpointed;
  checkpointed.removed_paths.assign(limits::kRemovedPaths + 1, "p");
  EXPECT_EQ(Cleaned(checkpointed).removed_paths.size(), limits::kRemovedPaths);
  report::Sampled sampled;
  sampled.completions.assign(limits::kSamplePrompts + 1,
                             std::string(limits::kSampleBytes + 1, 'x'));
  sampled.completions[1] =
      "a\n\x1b" + std::string(limits::kSampleBytes - 6, 'b');
  const report::Sampled clean = Cleaned(sampled);
  EXPECT_EQ(clean.completions.size(), limits::kSamplePrompts);
  EXPECT_EQ(clean.completions[0].size(), limits::kSampleBytes);
  EXPECT_EQ(clean.completions[1],
            "a\n\\x1b" + std::string(limits::kSampleBytes - 6, 'b'));
}

std::string Matrix(size_t bytes) {
  const std::string end = R"("],"matrix":[[1]]})";
  std::string text = R"({"labels":[")";
  text.append(bytes - text.size() - end.size(), 'x');
  return text + end;
}

TEST(CleanReport, AMatrixIsKeptWholeOrNotAtAll) {
  const auto of = [](const std::string& matrix) {
    report::Outcome outcome;
    outcome.confusion_matrix = matrix;
    const bool kept = Clean(outcome);
    EXPECT_EQ(kept, matrix.empty() || outcome.confusion_matrix != "");
    return outcome.confusion_matrix;
  };
  EXPECT_EQ(of(Matrix(limits::kMatrixBytes)), Matrix(limits::kMatrixBytes));
  for (const std::string& bad :
       {Matrix(limits::kMatrixBytes + 1), std::string(100'000, '['),
        std::string("{}"), std::string("no JSON"),
        std::string(R"({"labels":{}})"), std::string(R"({"labels":[[]]})")}) {
    EXPECT_EQ(of(bad), "");
  }
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("{\"labels\":[\"\x7f\"],\"matrix\":[[1]]}"),
            R"({"labels":["\\x7f"],"matrix":[[1]]})");
}

}  // namespace
}  // namespace mpsd::supervisor
