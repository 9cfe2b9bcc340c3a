// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <optional>
#include <string>

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::Time kTime = absl::FromUnixSeconds(1700000000);

class WorkerMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string TextAt(double seconds) {
    worker_.Advance(absl::Seconds(seconds));
    return Text();
  }
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
  static std::string Phase(const std::string& phase,
                           const std::string& device = "mps") {
    return "mpsd_phase_seconds_total{device=\"" + device + "\",phase=\"" +
           phase + "\"} ";
  }

  ::prometheus::Registry registry_;
  WorkerMetrics worker_{registry_};
};

TEST_F(WorkerMetricsTest, EveryPhaseHasASeriesOnceTheDeviceIsOpen) {
  StartAt(10);
  EXPECT_THAT(TextAt(12), Not(HasSubstr("mpsd_phase_seconds_total{")));
  worker_.DeviceOpened("mps");
  const std::string text = TextAt(15);
  EXPECT_THAT(text, HasSubstr(Phase("load") + "5\n"));
  for (const char* phase :
       {"train", "data_wait", "evaluate", "save", "paused"}) {
    EXPECT_THAT(text, HasSubstr(Phase(phase) + "0\n"));
  }
}

TEST_F(WorkerMetricsTest, WorkersAddUp) {
  for (double start : {0.0, 100.0}) {
    StartAt(start);
    worker_.DeviceOpened("mps");
    StepAt(start + 30, 10);
    worker_.Exited(absl::Seconds(start + 40));
  }
  EXPECT_THAT(TextAt(1000), HasSubstr(Phase("load") + "40\n"));
  EXPECT_THAT(Text(), HasSubstr(Phase("train") + "40\n"));
}

// A scrape came while a worker of an earlier release wrote a checkpoint
// unannounced: what the scrape has shown as training stays shown.
TEST_F(WorkerMetricsTest, ACounterWaitsInsteadOfFalling) {
  StartAt(0);
  StepAt(10, 10);
  EXPECT_THAT(TextAt(15), HasSubstr(Phase("train") + "15\n"));
  worker_.Saved(6, absl::Seconds(16));
  EXPECT_THAT(TextAt(16), HasSubstr(Phase("train") + "15\n"));
  EXPECT_THAT(Text(), HasSubstr(Phase("save") + "6\n"));
  EXPECT_THAT(TextAt(20), HasSubstr(Phase("train") + "15\n"));
  EXPECT_THAT(TextAt(22), HasSubstr(Phase("train") + "16\n"));
}

TEST_F(WorkerMetricsTest, AWorkerThatOpensNoDeviceIsCounted) {
  StartAt(0);
  worker_.Exited(absl::Seconds(2));
  EXPECT_THAT(Text(), HasSubstr(Phase("load", "unknown") + "2\n"));
}

TEST_F(WorkerMetricsTest, AnAttemptsStartGoesWithItsWorker) {
  StartAt(0);
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_attempt_start_timestamp_seconds{job_"
                                "id=\"J1\"} 1700000000\n"));
  worker_.Exited(absl::Seconds(2));
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=")));
}

TEST_F(WorkerMetricsTest, AStartLastsUntilTheFirstStep) {
  const std::string count = "mpsd_job_start_seconds_count{device=\"mps\"} ";
  StartAt(0);
  StepAt(25, 1);
  StepAt(26, 1);
  EXPECT_THAT(Text(), HasSubstr(count + "1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_start_seconds_bucket{device=\"mps\","
                                "le=\"30\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_start_seconds_bucket{device=\"mps\","
                                "le=\"20\"} 0\n"));
  StartAt(100);
  StepAt(101, 1);
  EXPECT_THAT(Text(), HasSubstr(count + "2\n"));
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
  EXPECT_THAT(TextAt(6), Not(HasSubstr("device=")));
}

}  // namespace
}  // namespace mpsd::prometheus
