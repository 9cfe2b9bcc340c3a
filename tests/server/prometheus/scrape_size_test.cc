// SPDX-License-Identifier: Apache-2.0
// What decides how long a scrape takes, counted: the series of a daemon that
// ran a thousand jobs. The time itself is tests/bench/scrape.py's.
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <vector>

#include "server/prometheus/daemon_metrics.h"
#include "server/prometheus/job_metrics.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/prometheus/told_daemon_metrics.h"

namespace mpsd::prometheus {
namespace {

constexpr absl::Duration kLinger = absl::Minutes(10);

class ScrapeSizeTest : public testing::Test {
 protected:
  size_t Series() const {
    size_t series = 0;
    for (const auto& family : Collect()) series += family.metric.size();
    return series;
  }
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(Collect());
  }
  size_t Bytes() const { return Text().size(); }
  std::vector<::prometheus::MetricFamily> Collect() const {
    std::vector<::prometheus::MetricFamily> families = jobs_.Collect();
    for (auto& family : daemon_.Collect()) families.push_back(family);
    return families;
  }
  void RunJob(int number) {
    const std::string id = "J" + std::to_string(number);
    const std::string owner = "owner" + std::to_string(number);
    jobs_.QueueChanged({{{number, 1}}, {{owner, 1}}, clock_.Now()});
    jobs_.JobStarted({id, "night run", owner, "CAUSAL_LM", "org/tiny", {}});
    jobs::Progress progress;
    progress.step = 1;
    progress.total_steps = 1;
    progress.device = "mps";
    jobs_.StepFinished(id, progress);
    jobs_.Evaluated(id, "mps", {1, 1, 0, 0, {{"accuracy", 1}, {"f1", 1}}});
    jobs_.CheckpointWritten(id, "mps", 1);
    jobs_.WorkerExited(jobs::ExitReason::kDone);
    jobs_.JobEnded(id, jobs::State::kSucceeded);
    TellEverythingOf(daemon_);
  }

  fakes::FakeClock clock_;
  JobMetrics jobs_{{{{"version", "0.1.0"}}, kLinger}, clock_};
  DaemonMetrics daemon_{clock_};
};

TEST_F(ScrapeSizeTest, JobsThatEndedLongAgoCostNothing) {
  // The first hundred meet the caps of owners and priorities.
  for (int i = 0; i < 100; ++i) RunJob(i);
  clock_.Advance(kLinger);
  const size_t series = Series(), bytes = Bytes();
  for (int i = 100; i < 1100; ++i) {
    RunJob(i);
    clock_.Advance(absl::Minutes(1));
  }
  clock_.Advance(kLinger);
  EXPECT_EQ(Series(), series);
  EXPECT_EQ(jobs_.job_series(), 0u);
  // Counts have more digits now.
  EXPECT_LT(Bytes(), bytes + 1000);
}

// A client's loop of jobs that fail at once.
TEST_F(ScrapeSizeTest, OfManyJobsThatEndTogetherTheLastLinger) {
  for (int i = 0; i < 1000; ++i) {
    RunJob(i);
    clock_.Advance(absl::Milliseconds(100));
  }
  EXPECT_EQ(jobs_.job_series(), JobMetrics::kMostLingering);
  EXPECT_LT(Series(), 2500u);
  const std::string text = Text();
  EXPECT_NE(text.find("\"J999\""), std::string::npos);
  EXPECT_NE(text.find("\"J900\""), std::string::npos);
  EXPECT_EQ(text.find("\"J899\""), std::string::npos);
}

// However many jobs end, those that go on keep their series.
TEST_F(ScrapeSizeTest, AJobThatHasNotEndedKeepsItsSeries) {
  jobs_.JobStarted({"waits", "night run", "ada", "CAUSAL_LM", "org/tiny", {}});
  for (int i = 0; i < 200; ++i) RunJob(i);
  EXPECT_EQ(jobs_.job_series(), JobMetrics::kMostLingering + 1);
  EXPECT_NE(Text().find("\"waits\""), std::string::npos);
}

TEST_F(ScrapeSizeTest, WithoutJobsAScrapeIsSmall) {
  TellEverythingOf(daemon_);
  EXPECT_LT(Series(), 200u);
  EXPECT_LT(Bytes(), 64u << 10);
}

}  // namespace
}  // namespace mpsd::prometheus
