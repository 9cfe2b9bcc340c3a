// SPDX-License-Identifier: Apache-2.0
#include "server/http/queue_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/http/names.h"
#include "server/http/worker_metrics.h"
#include "tests/server/http/scraped.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;

class QueueMetricsTest : public Scraped {
 protected:
  std::vector<::prometheus::MetricFamily> Collect() const override {
    return registry_.Collect();
  }

  ::prometheus::Registry registry_;
  QueueMetrics queue_{registry_};
};

TEST_F(QueueMetricsTest, CountsByPriorityAndOwner) {
  queue_.Set({{{-1, 1}, {0, 3}}, {{"ada", 3}, {"", 1}}, std::nullopt});
  Shows(R"(mpsd_queue_priority_jobs{priority="-1"} 1
           mpsd_queue_priority_jobs{priority="0"} 3
           mpsd_queue_owner_jobs{owner="ada"} 3
           mpsd_queue_owner_jobs{owner="unknown"} 1)");
  queue_.Set({});
  Shows(R"(mpsd_queue_priority_jobs{priority="0"} 0
           mpsd_queue_owner_jobs{owner="ada"} 0)");
}

TEST_F(QueueMetricsTest, AnEtaWithoutEveryPartIsNone) {
  jobs::QueueDepth depth;
  depth.time_left = absl::Seconds(30);
  queue_.Set(depth);
  queue_.SetEta(absl::Seconds(12));
  Shows("mpsd_queue_eta_seconds 42");
  queue_.SetEta(std::nullopt);
  Lacks("mpsd_queue_eta_seconds ");
  queue_.SetEta(absl::ZeroDuration());
  Shows("mpsd_queue_eta_seconds 30");
  depth.time_left.reset();
  queue_.Set(depth);
  queue_.SetEta(absl::ZeroDuration());
  Lacks("mpsd_queue_eta_seconds ");
}

TEST_F(QueueMetricsTest, ManyOwnersAndPrioritiesShareASeries) {
  jobs::QueueDepth depth;
  const int owners = QueueMetrics::kMostOwners + 3;
  for (int i = 100; i < 100 + owners; ++i) {
    depth.by_owner[absl::StrCat("u", i)] = 2;
    depth.by_priority[i] = 1;
  }
  queue_.Set(depth);
  Shows(R"(mpsd_queue_owner_jobs{owner="u100"} 2
           mpsd_queue_owner_jobs{owner="other"} 6)");
  Lacks("owner=\"u134\"");
  Shows(absl::StrCat(R"(mpsd_queue_priority_jobs{priority="other"} )",
                     owners - static_cast<int>(QueueMetrics::kMostPriorities)));
  // The numbers of names.h.
  EXPECT_THAT(
      kQueuedByPriority.help,
      HasSubstr(absl::StrCat("first ", QueueMetrics::kMostPriorities, " ")));
  EXPECT_THAT(kQueuedByOwner.help,
              HasSubstr(absl::StrCat("first ", QueueMetrics::kMostOwners)));
}

TEST_F(QueueMetricsTest, OwnersWhoLookAlikeAreCountedTogether) {
  const std::string name(2 * kLabelBytes, 'x');
  queue_.Set({{}, {{name + "a", 1}, {name + "b", 1}}, std::nullopt});
  EXPECT_THAT(Text(), HasSubstr("x…\"} 2\n"));
}

TEST_F(QueueMetricsTest, TheOldestJobGrowsOlder) {
  const absl::Time since = absl::UnixEpoch();
  queue_.SetAge(since);
  Shows("mpsd_queue_oldest_age_seconds 0");
  queue_.Set({{{0, 1}}, {{"ada", 1}}, since});
  queue_.SetAge(since + absl::Seconds(90));
  Shows("mpsd_queue_oldest_age_seconds 90");
  queue_.SetAge(since - absl::Seconds(5));
  Shows("mpsd_queue_oldest_age_seconds 0");
}

class ReasonMetricsTest : public QueueMetricsTest {
 protected:
  void Expect(const std::string& reason, int holds, int times, int seconds) {
    const std::string label = "{reason=\"" + reason + "\"} ";
    Shows(absl::StrCat("mpsd_held", label, holds, "\nmpsd_holds_total", label,
                       times, "\nmpsd_held_seconds_total", label, seconds));
  }
  ReasonMetrics reasons_{
      registry_, {kHeld, kHolds, kHeldSeconds}, {"disk", "storage"}};
};

TEST_F(ReasonMetricsTest, CountsEachReasonFromItsBeginningToItsEnd) {
  Expect("disk", 0, 0, 0);
  Expect("storage", 0, 0, 0);
  reasons_.Set({"disk"}, absl::Seconds(10));
  Expect("disk", 1, 1, 0);
  reasons_.Set({"disk", "storage"}, absl::Seconds(15));
  Expect("disk", 1, 1, 5);
  reasons_.Set({"storage"}, absl::Seconds(17));
  Expect("disk", 0, 1, 7);
  Expect("storage", 1, 1, 2);
  reasons_.Set({"disk"}, absl::Seconds(20));
  Expect("disk", 1, 2, 7);
  Expect("storage", 0, 1, 5);
}

TEST_F(ReasonMetricsTest, AdvancesWhileAReasonHolds) {
  reasons_.Set({"disk"}, absl::Seconds(10));
  reasons_.Advance(absl::Seconds(3610));
  reasons_.Advance(absl::Seconds(3610));
  Expect("disk", 1, 1, 3600);
  Expect("storage", 0, 0, 0);
}

TEST_F(ReasonMetricsTest, AReasonThatIsNotKnownHasNoSeries) {
  reasons_.Set({"weather"}, absl::Seconds(10));
  Lacks("weather");
}

const absl::Time kTime = absl::FromUnixSeconds(1700000000);

class WorkerMetricsTest : public Scraped {
 protected:
  std::vector<::prometheus::MetricFamily> Collect() const override {
    return registry_.Collect();
  }
  void AdvanceTo(double seconds) { worker_.Advance(absl::Seconds(seconds)); }
  void StartAt(double seconds) {
    worker_.Started(Job(), kTime, absl::Seconds(seconds));
  }
  void StepAt(double seconds, double took) {
    worker_.Stepped(Step(took), "mps", absl::Seconds(seconds));
  }
  static jobs::StartedJob Job() {
    return {"J1", "run", "ada", "CAUSAL_LM", "org/tiny", {}};
  }
  static jobs::Progress Step(double seconds) {
    jobs::Progress progress;
    progress.step = 1;
    progress.seconds = seconds;
    progress.eta_seconds = 60;
    return progress;
  }
  void ShowsPhase(const std::string& phase, int seconds,
                  const std::string& device = "mps") const {
    Shows("mpsd_phase_seconds_total{device=\"" + device + "\",phase=\"" +
          phase + "\"} " + std::to_string(seconds));
  }

  ::prometheus::Registry registry_;
  WorkerMetrics worker_{registry_};
};

TEST_F(WorkerMetricsTest, EveryPhaseHasASeriesOnceTheDeviceIsOpen) {
  StartAt(10);
  AdvanceTo(12);
  Lacks("mpsd_phase_seconds_total{");
  worker_.DeviceOpened("mps");
  AdvanceTo(15);
  ShowsPhase("load", 5);
  for (const char* phase :
       {"train", "data_wait", "evaluate", "save", "paused"}) {
    ShowsPhase(phase, 0);
  }
}

TEST_F(WorkerMetricsTest, WorkersAddUp) {
  for (double start : {0.0, 100.0}) {
    StartAt(start);
    worker_.DeviceOpened("mps");
    StepAt(start + 30, 10);
    worker_.Exited(absl::Seconds(start + 40));
  }
  AdvanceTo(1000);
  ShowsPhase("load", 40);
  ShowsPhase("train", 40);
}

// A scrape came while a worker of an earlier release wrote a checkpoint
// unannounced: what the scrape has shown as training stays shown.
TEST_F(WorkerMetricsTest, ACounterWaitsInsteadOfFalling) {
  StartAt(0);
  StepAt(10, 10);
  AdvanceTo(15);
  ShowsPhase("train", 15);
  worker_.Saved(6, absl::Seconds(16));
  AdvanceTo(16);
  ShowsPhase("train", 15);
  ShowsPhase("save", 6);
  AdvanceTo(20);
  ShowsPhase("train", 15);
  AdvanceTo(22);
  ShowsPhase("train", 16);
}

TEST_F(WorkerMetricsTest, AnAttemptsStartGoesWithItsWorker) {
  StartAt(0);
  Shows(R"(mpsd_job_attempt_start_timestamp_seconds{job_id="J1"} 1700000000)");
  worker_.Exited(absl::Seconds(2));
  Lacks("job_id=");
  // One that opened no device is counted.
  ShowsPhase("load", 2, "unknown");
}

TEST_F(WorkerMetricsTest, AStartLastsUntilTheFirstStep) {
  StartAt(0);
  StepAt(25, 1);
  StepAt(26, 1);
  Shows(R"(mpsd_job_start_seconds_count{device="mps"} 1
           mpsd_job_start_seconds_bucket{device="mps",le="30"} 1
           mpsd_job_start_seconds_bucket{device="mps",le="20"} 0)");
  StartAt(100);
  StepAt(101, 1);
  Shows(R"(mpsd_job_start_seconds_count{device="mps"} 2)");
}

TEST_F(WorkerMetricsTest, TellsTheTimeLeft) {
  EXPECT_EQ(worker_.TimeLeft(), absl::ZeroDuration());
  StartAt(0);
  EXPECT_EQ(worker_.TimeLeft(), std::nullopt);
  StepAt(10, 1);
  EXPECT_EQ(worker_.TimeLeft(), absl::Seconds(60));
  jobs::Progress step = Step(1);
  step.eta_seconds = std::nan("");
  worker_.Stepped(step, "mps", absl::Seconds(11));
  EXPECT_EQ(worker_.TimeLeft(), std::nullopt);
  worker_.Exited(absl::Seconds(12));
  EXPECT_EQ(worker_.TimeLeft(), absl::ZeroDuration());
  jobs::StartedJob again = Job();
  again.time_left = absl::Seconds(33);
  worker_.Started(again, kTime, absl::Seconds(13));
  EXPECT_EQ(worker_.TimeLeft(), absl::Seconds(33));
}

TEST_F(WorkerMetricsTest, ReportsWithoutAWorkerAreIgnored) {
  worker_.DeviceOpened("mps");
  worker_.StageBegan("training", absl::Seconds(1));
  worker_.Halts(true, absl::Seconds(1));
  worker_.Halts(false, absl::Seconds(1));
  StepAt(2, 1);
  worker_.Evaluated(1, absl::Seconds(3));
  worker_.Saved(1, absl::Seconds(4));
  worker_.Exited(absl::Seconds(5));
  AdvanceTo(6);
  Lacks("device=");
}

}  // namespace
}  // namespace mpsd::prometheus
