// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "core/report/report.h"
#include "tests/fakes/test_store.h"

namespace mpsd::jobs {
namespace {

using testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1000);

class RunningJobTest : public testing::Test {
 protected:
  RunningJobTest() : run_(QueuedJob(), 1, 0) {
    const Event first{"J", 1, kNow, StateChanged{State::kQueued, ""}};
    EXPECT_TRUE(store_.Insert(QueuedJob(), first).ok());
    run_.Start("boot", kNow);
    EXPECT_TRUE(run_.Flush(store_).ok());
  }
  static Job QueuedJob() {
    Job job;
    job.id = "J";
    job.failures = 2;
    job.not_before = kNow;
    job.message = "failure 2";
    return job;
  }
  Job Stored() { return *store_.Get("J"); }
  std::vector<Event> Events() { return *store_.Events("J", 0, 100); }
  static Progress Step(int64_t step) {
    Progress progress;
    progress.step = step;
    progress.total_steps = 10;
    progress.tokens = 50;
    progress.seconds = 0.5;
    return progress;
  }

  fakes::TestStore db_;
  JobStore& store_ = db_.rows;
  RunningJob run_;
};

TEST_F(RunningJobTest, OnlyTheLatestProgressBetweenFlushesIsAnEvent) {
  run_.Progressed(Step(1), kNow);
  run_.Progressed(Step(2), kNow);
  EXPECT_TRUE(run_.dirty());
  EXPECT_TRUE(run_.Flush(store_).ok());
  EXPECT_FALSE(run_.dirty());
  run_.Progressed(Step(3), kNow);
  run_.Evaluated({3, 0.5, 0, 0, {}}, kNow);
  run_.Progressed(Step(4), kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  ASSERT_EQ(Events().size(), 6);
  EXPECT_EQ(std::get<Progress>(Events()[2].body).step, 2);
  EXPECT_EQ(std::get<Progress>(Events()[3].body).step, 3);
  EXPECT_EQ(std::get<Evaluated>(Events()[4].body).step, 3);
  EXPECT_EQ(std::get<Progress>(Events()[5].body).step, 4);
  EXPECT_EQ(Stored().progress->step, 4);
  EXPECT_EQ(Stored().progress->tokens_per_second, 100);
}

TEST_F(RunningJobTest, OnlyANewCheckpointForgivesFailures) {
  RunningJob run(Stored(), 2, /*last_checkpoint=*/10);
  Checkpoint checkpoint;
  checkpoint.step = 10;
  run.CheckpointWritten(checkpoint);
  EXPECT_EQ(run.job().failures, 2);
  checkpoint.step = 11;
  run.CheckpointWritten(checkpoint);
  EXPECT_EQ(run.job().failures, 0);
}

TEST_F(RunningJobTest, AStageIsNotedOnce) {
  run_.Staged("loading model", kNow);
  run_.Staged("loading model", kNow);
  run_.Staged("", kNow);
  run_.Staged(report::kStageSaving, kNow);
  run_.Staged("tokenizing", kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  ASSERT_EQ(Events().size(), 4);
  EXPECT_EQ(std::get<Note>(Events()[3].body).text, "tokenizing");
}

TEST_F(RunningJobTest, AWarningIsKeptAndReportedOnce) {
  run_.Warned("memory grows", kNow);
  run_.Warned("memory grows", kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  // The next attempt finds the same amiss.
  RunningJob again(Stored(), 3, 0);
  again.Warned("memory grows", kNow);
  EXPECT_FALSE(again.dirty());
  again.Warned("and grows", kNow);
  EXPECT_TRUE(again.Flush(store_).ok());
  EXPECT_THAT(Stored().warnings,
              testing::ElementsAre("memory grows", "and grows"));
  ASSERT_EQ(Events().size(), 4);
  for (int i : {2, 3}) {
    EXPECT_TRUE(std::get<Note>(Events()[i].body).is_warning);
    EXPECT_EQ(std::get<Note>(Events()[i].body).text, Stored().warnings[i - 2]);
  }
}

TEST_F(RunningJobTest, WarningsHaveBounds) {
  run_.Warned(std::string(1 << 20, 'x'), kNow);
  for (int i = 0; i < 1000; ++i) run_.Warned(absl::StrCat("text ", i), kNow);
  EXPECT_TRUE(run_.Flush(store_).ok());
  const std::vector<std::string> warnings = Stored().warnings;
  ASSERT_EQ(warnings.size(), RunningJob::kMostWarnings);
  EXPECT_EQ(warnings[0], std::string(RunningJob::kLongestWarning, 'x'));
  EXPECT_EQ(warnings[1], "text 0");
  EXPECT_THAT(warnings.back(), testing::HasSubstr("more warnings"));
  EXPECT_EQ(Events().size(), 2 + RunningJob::kMostWarnings);
}

TEST_F(RunningJobTest, KeepsTheLatestMetricsAndTheBestEvaluation) {
  RunningJob run(Stored(), 2, 0);
  run.Evaluated({0, 1, 0, 0, {{"f1", 1.0}}}, kNow);
  EXPECT_FALSE(run.job().best_evaluation.has_value());
  run.Evaluated({4, 3, 0, 0, {{"f1", 0.5}}, true}, kNow);
  run.Evaluated({8, 4, 0, 0, {{"f1", 0.75}}, true}, kNow);
  run.Evaluated({12, 2, 0, 0, {{"f1", 0.625}}}, kNow);
  EXPECT_EQ(run.job().metrics, (Metrics{{"f1", 0.625}}));
  ASSERT_TRUE(run.job().best_evaluation.has_value());
  EXPECT_EQ(run.job().best_evaluation->step, 8);
  EXPECT_EQ(run.job().best_evaluation->metrics, (Metrics{{"f1", 0.75}}));
}

TEST(Journal, ALogThatHangsHoldsOneThreadAndLosesTheLastLines) {
  absl::Notification hangs, go;
  std::vector<std::string> written;
  Journal journal([&](const std::string&, const std::string& line) {
    if (!hangs.HasBeenNotified()) {
      hangs.Notify();
      go.WaitForNotification();
    }
    written.push_back(line);
  });
  journal.Add("", "first");
  std::thread writer([&] { journal.Write(); });
  hangs.WaitForNotification();
  for (size_t i = 0; i < Journal::kMostWaiting + 3; ++i) {
    journal.Add("", "more");
    journal.Write();  // would hang, too, if it waited for the other
  }
  go.Notify();
  writer.join();
  ASSERT_THAT(written, SizeIs(1 + Journal::kMostWaiting + 1));
  EXPECT_EQ(written.front(), "first");
  EXPECT_EQ(written.back(), "3 lines are missing here: the log hung");
}

TEST(Relay, EveryAskIsServed) {
  Relay relay;
  std::atomic<int> asked = 0;
  int served = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ++asked;
        relay.Ask();
        relay.Run([&] { served = asked; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 4000);
}

}  // namespace
}  // namespace mpsd::jobs
