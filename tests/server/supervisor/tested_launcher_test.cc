// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/tested_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::supervisor {
namespace {

template <typename Report>
Report Cleaned(Report report) {
  Clean(report);
  return report;
}

TEST(CleanReport, NumbersAndPathsStayAsTheyAre) {
  report::Progress progress;
  progress.step = 1;
  progress.loss = 3;
  progress.padded_tokens = 8;
  progress.device = "mps";
  progress.memory = {8, 9, 10, 11, 12};
  const report::Progress clean = Cleaned(progress);
  EXPECT_EQ(clean.step, 1);
  EXPECT_EQ(clean.loss, 3);
  EXPECT_EQ(clean.padded_tokens, 8);
  EXPECT_EQ(clean.device, "mps");
  EXPECT_EQ(clean.memory.peak_allocated_bytes, 12);
  const std::string path(2 * limits::kVersionBytes, '\n');
  EXPECT_EQ(Cleaned(report::Checkpointed{4, path, 100, 2.5, {path}}).path,
            path);
  EXPECT_EQ(
      Cleaned(report::Checkpointed{4, "", 100, 2.5, {path}}).removed_paths,
      std::vector<std::string>{path});
  report::Outcome outcome;
  outcome.output_path = path;
  EXPECT_TRUE(Clean(outcome));
  EXPECT_EQ(outcome.output_path, path);
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

TEST(CleanReport, OnlyAMessageHasLines) {
  const std::string two = "a\nb";
  EXPECT_EQ(CleanText(two), two);
  EXPECT_EQ(
      Cleaned(report::Failure{report::FailureKind::kInternal, two}).message,
      two);
  EXPECT_EQ(CleanWarning(two), "a\\nb");
  EXPECT_EQ(CleanStage(two), "a\\nb");
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

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

absl::Status Wanted() { return absl::OkStatus(); }

// The worker is a script.
class ScriptTest : public testing::Test {
 protected:
  std::string worker() const { return folder_ / "worker"; }
  void Worker(const std::string& script) const {
    std::ofstream(worker()) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(worker(), fs::perms::owner_all);
  }
  const fs::path folder_ = testing_support::FreshFolder("script");
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
    const auto text =
        base::ReadFile("/proc/" + std::to_string(child) + "/status");
    return text.ok() && text->find("State:\tZ") != std::string::npos;
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

TEST_F(TestedLauncherTest, ADeviceThatPassesIsReady) {
  Worker("echo \"$@\"; exit 0");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_EQ(line_, "self-test of the device: passed");
  EXPECT_EQ(Log(), "--selftest --verdict " + options_.verdict_path + "\n");
  EXPECT_TRUE(passed_.empty()) << "there was no device to test";
}

TEST_F(TestedLauncherTest, TheTestHasAFolderForItsTemporaryFiles) {
  options_.temporary_dir = folder_ / "tmp";
  Worker("touch \"$TMPDIR/left\" && echo \"$TMPDIR\"");
  EXPECT_TRUE(Verdict().ok());
  EXPECT_EQ(Log(), (folder_ / "tmp/selftest").string() + "\n");
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

TEST_F(TestedLauncherTest, ThenTheLauncherBehindItDecides) {
  Worker("exit 0");
  idle_.ready = absl::UnavailableError("an earlier worker");
  EXPECT_EQ(Verdict(), idle_.ready);
}

}  // namespace
}  // namespace mpsd::supervisor
