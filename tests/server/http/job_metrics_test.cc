// SPDX-License-Identifier: Apache-2.0
#include "server/http/job_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_join.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/http/scraped.h"
#include "tests/server/readme_part.h"

namespace mpsd::prometheus {
namespace {

class JobMetricsTest : public Scraped {
 protected:
  std::vector<::prometheus::MetricFamily> Collect() const override {
    return metrics_.Collect();
  }
  static jobs::Progress Step() {
    jobs::Progress progress;
    progress.step = 1;
    progress.total_steps = 9;
    progress.epoch = 0.25;
    progress.eta_seconds = 1.5;
    progress.loss = 2.5;
    progress.learning_rate = 0.001;
    progress.grad_norm = 0.75;
    progress.tokens = 100;
    progress.tokens_per_second = 500;
    progress.seconds = 0.2;
    progress.device = "mps";
    progress.memory = {1000, 2000, 3000, 4000, 5000};
    return progress;
  }

  static jobs::StartedJob Started(const std::string& id,
                                  absl::Duration queue_wait = {}) {
    return {id, "night run", "ada", "CAUSAL_LM", "org/tiny", queue_wait};
  }

  static host::Reading TheReading() {
    return {host::PowerSource::kBattery,
            0.5,
            true,
            host::Thermal::kHeavy,
            host::MemoryPressure::kWarn,
            1024,
            0.75,
            2,
            0,
            3.5};
  }

  // Every metric has a series afterwards.
  void SetEverything() {
    jobs::Progress progress = Step();
    progress.cpu_fallback_ops = {{"aten::a", 1}};
    progress.padding_ratio = progress.data_wait_ratio = 0.5;
    progress.device_utilization_ratio = 0.5;
    progress.metrics = {{"rewards/margins", 1}};
    metrics_.QueueChanged({{{0, 1}}, {{"ada", 1}}, clock_.Now()});
    metrics_.JobStarted(Started("J1"));
    metrics_.DeviceOpened("J1", "mps");
    metrics_.StepFinished("J1", progress);
    metrics_.Evaluated("J1", "mps", {1, 1, 0, 0, {{"accuracy", 1}}});
    metrics_.CheckpointWritten("J1", "mps", 1);
    metrics_.HostRead(TheReading());
  }

  fakes::FakeClock clock_;
  JobMetrics metrics_{{{{"commit", "unknown"},
                        {"compiler", "c"},
                        {"torch", "2.15.0"},
                        {"version", "0.1.0"}},
                       absl::Minutes(10)},
                      clock_};
};

TEST_F(JobMetricsTest, KnownSeriesStartAtZero) {
  Shows(
      R"(mpsd_build_info{commit="unknown",compiler="c",torch="2.15.0",version="0.1.0"} 1
           mpsd_jobs{state="queued"} 0
           mpsd_worker_exits_total{class="job",reason="protocol_error"} 0
           mpsd_job_retries_total{class="machine",reason="machine"} 0
           mpsd_paused_seconds_total{reason="thermal"} 0
           mpsd_held_seconds_total{reason="disk"} 0
           mpsd_holds_total{reason="disk"} 0
           mpsd_job_queue_wait_seconds_count 0
           mpsd_jobs_ended_total{state="failed"} 0)");
  Lacks(R"(mpsd_job_retries_total{class="none",reason="done"})");
  Lacks(R"(mpsd_jobs_ended_total{state="queued"})");
}

TEST_F(JobMetricsTest, CountsJobsByState) {
  metrics_.JobCounts({{jobs::State::kQueued, 2}, {jobs::State::kRunning, 1}});
  Shows(R"(mpsd_jobs{state="queued"} 2
           mpsd_jobs{state="running"} 1)");
  metrics_.JobCounts({{jobs::State::kSucceeded, 3}});
  Shows(R"(mpsd_jobs{state="queued"} 0
           mpsd_jobs{state="succeeded"} 3)");
}

TEST_F(JobMetricsTest, CountsEndsReturnsAndNotifications) {
  metrics_.JobEnded("J1", jobs::State::kFailed);
  metrics_.JobEnded("J2", jobs::State::kFailed);
  Shows(R"(mpsd_jobs_ended_total{state="failed"} 2
           mpsd_jobs_ended_total{state="succeeded"} 0)");
  metrics_.JobReturned(jobs::ExitReason::kHung);
  metrics_.JobReturned(jobs::ExitReason::kInterrupted);
  metrics_.JobReturned(jobs::ExitReason::kHung);
  Shows(R"(mpsd_job_retries_total{class="job",reason="hung"} 2
           mpsd_job_retries_total{class="interruption",reason="interrupted"} 1)");
  Shows(R"(mpsd_notifications_total{result="dropped"} 0)");
  metrics_.Notified("sent");
  metrics_.Notified("sent");
  Shows(R"(mpsd_notifications_total{result="sent"} 2)");
}

TEST_F(JobMetricsTest, WhatAStepDoesNotReportHasNoSeries) {
  jobs::Progress step = Step();
  step.memory = {};
  metrics_.StepFinished("J1", step);
  Lacks("mpsd_device_memory");
  Lacks("mpsd_job_padding_ratio{");
  Lacks("mpsd_job_device_utilization_ratio{");
  Lacks("mpsd_job_step_metric{");
  step.padding_ratio = 0.25;
  step.data_wait_ratio = 0.125;
  step.device_utilization_ratio = 0.75;
  step.metrics = {{"rewards/margins", 0.5}};
  metrics_.StepFinished("J1", step);
  Shows(R"(mpsd_job_padding_ratio{device="mps",job_id="J1"} 0.25
           mpsd_job_data_wait_ratio{device="mps",job_id="J1"} 0.125
           mpsd_job_device_utilization_ratio{device="mps",job_id="J1"} 0.75
           mpsd_job_step_metric{device="mps",job_id="J1",metric="rewards/margins"} 0.5)");
}

TEST_F(JobMetricsTest, AStepSetsItsSeries) {
  metrics_.StepFinished("J1", Step());
  metrics_.StepFinished("J1", Step());
  Shows(R"(mpsd_job_loss{device="mps",job_id="J1"} 2.5
           mpsd_job_learning_rate{device="mps",job_id="J1"} 0.001
           mpsd_job_grad_norm{device="mps",job_id="J1"} 0.75
           mpsd_job_step{device="mps",job_id="J1"} 1
           mpsd_job_planned_steps{device="mps",job_id="J1"} 9
           mpsd_job_epoch{device="mps",job_id="J1"} 0.25
           mpsd_job_eta_seconds{device="mps",job_id="J1"} 1.5
           mpsd_job_tokens_per_second{device="mps",job_id="J1"} 500
           mpsd_job_last_step_timestamp_seconds{device="mps",job_id="J1"} 1767225600
           mpsd_steps_total{device="mps"} 2
           mpsd_tokens_total{device="mps"} 200
           mpsd_step_seconds_count{device="mps"} 2
           mpsd_step_seconds_bucket{device="mps",le="0.2"} 2
           mpsd_step_seconds_bucket{device="mps",le="0.1"} 0
           mpsd_device_memory_current_allocated_bytes{device="mps"} 1000
           mpsd_device_memory_driver_allocated_bytes{device="mps"} 2000
           mpsd_device_memory_recommended_max_bytes{device="mps"} 3000
           mpsd_device_memory_peak_allocated_bytes{device="mps"} 5000
           mpsd_worker_footprint_bytes{device="mps"} 4000)");
}

TEST_F(JobMetricsTest, CountsOperatorsOnTheCpu) {
  const std::string a =
      R"(mpsd_cpu_fallback_ops_total{device="mps",op="aten::a"} )";
  jobs::Progress progress = Step();
  progress.cpu_fallback_ops = {{"aten::a", 3}, {"aten::b", 1}};
  metrics_.StepFinished("J1", progress);
  metrics_.StepFinished("J1", progress);
  Shows(a + "3");
  progress.cpu_fallback_ops["aten::a"] = 5;
  metrics_.StepFinished("J1", progress);
  Shows(a + "5");
  // Another job's count starts anew, and one goes back to a checkpoint.
  progress.cpu_fallback_ops = {{"aten::a", 1}};
  metrics_.StepFinished("J2", progress);
  metrics_.StepFinished("J1", progress);
  Shows(a + "6");
}

TEST_F(JobMetricsTest, SaysWhatTheMachineSays) {
  Lacks("mpsd_host_");
  host::Reading reading = TheReading();
  metrics_.HostRead(reading);
  Shows(R"(mpsd_host_on_battery 1
           mpsd_host_battery_ratio 0.5
           mpsd_host_low_power_mode 1
           mpsd_host_thermal_level 2
           mpsd_host_memory_pressure_level 1
           mpsd_host_swap_used_bytes 1024
           mpsd_host_gpu_utilization_ratio 0.75
           mpsd_host_gpu_resets 2
           mpsd_host_wired_limit_bytes 0
           mpsd_host_user_idle_seconds 3.5)");
  reading.battery_ratio.reset();
  reading.power_source = host::PowerSource::kMains;
  metrics_.HostRead(reading);
  Shows("mpsd_host_on_battery 0");
  Lacks("mpsd_host_battery_ratio");
}

TEST_F(JobMetricsTest, MemoryGoesWithItsWorker) {
  metrics_.StepFinished("J1", Step());
  metrics_.WorkerExited(jobs::ExitReason::kCrashed);
  Lacks("current_allocated_bytes{");
  Shows(R"(mpsd_worker_exits_total{class="job",reason="crashed"} 1)");
  metrics_.StepFinished("J1", Step());
  EXPECT_THAT(Text(), HasSubstr("current_allocated_bytes{"));
}

// A worker of an earlier release reports its device with the first step.
TEST_F(JobMetricsTest, SeriesMoveToTheDeviceOnceItIsKnown) {
  metrics_.JobStarted(Started("J1"));
  metrics_.Evaluated("J1", "", {1, 3, 0, 0, {{"f1", 0.5}}});
  Shows(R"(mpsd_job_eval_loss{device="unknown",job_id="J1"} 3)");
  metrics_.StepFinished("J1", Step());
  Shows(R"(mpsd_job_eval_loss{device="mps",job_id="J1"} 3
           mpsd_job_eval_metric{device="mps",job_id="J1",metric="f1"} 0.5)");
  // The next attempt has not reported its device yet.
  metrics_.Evaluated("J1", "", {2, 2, 0, 0, {}});
  Shows(R"(mpsd_job_eval_loss{device="mps",job_id="J1"} 2)");
  Lacks(R"(device="unknown")");
}

TEST_F(JobMetricsTest, AJobOnAnotherDeviceLeavesNoOldSeries) {
  metrics_.JobStarted(Started("J1"));
  metrics_.StepFinished("J1", Step());
  metrics_.Evaluated("J1", "mps", {1, 3, 0, 0, {{"f1", 0.5}}});
  metrics_.WorkerExited(jobs::ExitReason::kCrashed);
  metrics_.JobStarted(Started("J1"));
  metrics_.DeviceOpened("J1", "cpu");
  Lacks(R"(device="mps",job_id=)");
  Shows(R"(mpsd_job_eval_loss{device="cpu",job_id="J1"} 3)");
  jobs::Progress step = Step();
  step.device = "cpu";
  step.loss = 1.25;
  metrics_.StepFinished("J1", step);
  Shows(R"(mpsd_job_loss{device="cpu",job_id="J1"} 1.25)");
  metrics_.WorkerExited(jobs::ExitReason::kDone);
  metrics_.JobEnded("J1", jobs::State::kSucceeded);
  clock_.Advance(absl::Minutes(10));
  Lacks("job_id=");
}

TEST_F(JobMetricsTest, ManyDevicesShareALabel) {
  jobs::Progress step = Step();
  for (int i = 0; i < 100; ++i) {
    step.device = "tpu" + std::to_string(i);
    metrics_.StepFinished("J1", step);
  }
  Shows(R"(mpsd_steps_total{device="tpu7"} 1
           mpsd_steps_total{device="other"} 92)");
  Lacks("tpu8");
}

TEST_F(JobMetricsTest, AnEndedJobsSeriesLingerAndGo) {
  metrics_.StepFinished("J1", Step());
  metrics_.StepFinished("J2", Step());
  metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(10) - absl::Seconds(1));
  EXPECT_THAT(Text(), HasSubstr("job_id=\"J1\""));
  clock_.Advance(absl::Seconds(1));
  Lacks(R"(job_id="J1")");
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_loss{device=\"mps\",job_id=\"J2\"}"));
  Shows(R"(mpsd_tokens_total{device="mps"} 200)");
}

TEST_F(JobMetricsTest, ADeletedJobsSeriesGoAtOnce) {
  metrics_.Evaluated("J1", "mps", {1, 2, 0, 0, {{"f1", 0.75}}});
  metrics_.StepFinished("J1", Step());
  metrics_.StepFinished("J2", Step());
  metrics_.JobEnded("J1", jobs::State::kFailed);
  metrics_.JobDeleted("J1");
  metrics_.JobDeleted("J3");
  Lacks(R"(job_id="J1")");
  EXPECT_THAT(Text(), HasSubstr("job_id=\"J2\""));
}

TEST_F(JobMetricsTest, SaysWhatAJobIsUntilItsSeriesGo) {
  const std::string info =
      R"(mpsd_job_info{job_id="J1",model="org/tiny",name="night run",owner="ada",task="CAUSAL_LM"} 1)";
  metrics_.JobStarted(Started("J1"));
  Shows(info);
  metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(9));
  // A user retries the job, and its model takes long to load.
  metrics_.JobStarted(Started("J1"));
  clock_.Advance(absl::Minutes(9));
  Shows(info);
  metrics_.JobEnded("J1", jobs::State::kSucceeded);
  clock_.Advance(absl::Minutes(10));
  Lacks("mpsd_job_info{");
}

// A reader of the metrics need not be an owner.
TEST_F(JobMetricsTest, PrivateJobsShowNoNameAndNothingOfWhatTheyLearnt) {
  JobMetrics::Options options;
  options.private_jobs = true;
  JobMetrics metrics(options, clock_);
  metrics.JobStarted(Started("J1"));
  metrics.StepFinished("J1", Step());
  metrics.Evaluated("J1", "mps", {1, 2, 0, 0, {{"accuracy", 0.5}}});
  const std::string text =
      ::prometheus::TextSerializer().Serialize(metrics.Collect());
  for (const char* shown :
       {"mpsd_job_info{job_id=\"J1\",model=\"\",name=\"\",owner=\"ada\",task="
        "\"\"} 1\n",
        "mpsd_job_step{device=\"mps\",job_id=\"J1\"} 1\n",
        "mpsd_job_planned_steps{device=\"mps\",job_id=\"J1\"} 9\n",
        "mpsd_job_eta_seconds{device=\"mps\",job_id=\"J1\"} 1.5\n",
        "mpsd_steps_total{device=\"mps\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(shown));
  }
  for (const char* hidden :
       {"night run", "org/tiny", "mpsd_job_loss{", "mpsd_job_eval_loss{",
        "mpsd_job_eval_metric{", "mpsd_job_grad_norm{",
        "mpsd_job_learning_rate{", "mpsd_job_epoch{",
        "mpsd_job_tokens_per_second{"}) {
    EXPECT_THAT(text, Not(HasSubstr(hidden)));
  }
}

TEST_F(JobMetricsTest, AJobsTextsAreBounded) {
  jobs::StartedJob job = Started("J1");
  job.name = std::string(1 << 20, 'x');
  job.name += '\n';
  job.owner = job.model = job.name;
  metrics_.JobStarted(job);
  EXPECT_LT(Text().size(), 100'000u);
}

const char* KindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "unknown";
}

// "`device`, `job_id`"; "" for a metric without labels.
std::string LabelsText(const Metric& metric) {
  const std::vector<std::string> labels =
      absl::StrSplit(metric.labels, ", ", absl::SkipEmpty());
  return absl::StrJoin(labels, ", ", [](std::string* out, const auto& label) {
    absl::StrAppend(out, "`", label, "`");
  });
}

// Every metric of names.h, by name.
std::vector<Metric> AllMetrics() {
  std::vector<Metric> metrics(std::begin(kMetrics), std::end(kMetrics));
  std::sort(metrics.begin(), metrics.end(),
            [](const Metric& a, const Metric& b) {
              return std::strcmp(a.name, b.name) < 0;
            });
  return metrics;
}

// The table of all metrics in Markdown, a row each, which deploy/metrics.md
// has.
std::string MetricReference() {
  std::string text =
      "| metric | kind | labels | meaning |\n|---|---|---|---|\n";
  for (const Metric& metric : AllMetrics()) {
    absl::StrAppend(&text, "| `", metric.name, "` | ", KindName(metric.kind),
                    " | ", LabelsText(metric), " | ", metric.help, " |\n");
  }
  return text;
}

TEST(MetricReference, IsTheTableOfItsPage) {
  ExpectInPage("metrics.md", "metrics", MetricReference());
}

TEST_F(JobMetricsTest, TheTableOfMetricsIsWhatAScrapeHas) {
  SetEverything();
  DaemonMetrics daemon_metrics(clock_);
  SetEverythingOf(daemon_metrics);
  std::vector<::prometheus::MetricFamily> families = metrics_.Collect();
  for (::prometheus::MetricFamily& family : daemon_metrics.Collect()) {
    families.push_back(std::move(family));
  }
  std::map<std::string, Metric> expected;
  for (const Metric& metric : AllMetrics()) {
    EXPECT_TRUE(expected.insert({metric.name, metric}).second) << metric.name;
    EXPECT_EQ(std::string(metric.help).find('|'), std::string::npos);
  }
  expected.erase(Named("mpsd_metrics_certificate_expiry_timestamp_seconds")
                     ->name);  // Exposition's own
  const std::map<::prometheus::MetricType, MetricKind> kinds = {
      {::prometheus::MetricType::Gauge, MetricKind::kGauge},
      {::prometheus::MetricType::Counter, MetricKind::kCounter},
      {::prometheus::MetricType::Histogram, MetricKind::kHistogram}};
  for (const ::prometheus::MetricFamily& family : families) {
    const auto metric = expected.find(family.name);
    ASSERT_NE(metric, expected.end()) << family.name << " is not in the table";
    EXPECT_EQ(kinds.at(family.type), metric->second.kind) << family.name;
    EXPECT_EQ(family.help, metric->second.help);
    for (const ::prometheus::ClientMetric& series : family.metric) {
      std::set<std::string> labels;
      for (const auto& label : series.label) labels.insert(label.name);
      EXPECT_EQ(absl::StrJoin(labels, ", "), metric->second.labels)
          << family.name;
    }
    expected.erase(metric);
  }
  for (const auto& [name, metric] : expected) {
    ADD_FAILURE() << name << " is in the table alone";
  }
}

TEST_F(JobMetricsTest, SaysWhatKeepsJobsFromTraining) {
  using jobs::PauseReason;
  Shows(R"(mpsd_paused{reason="battery"} 0)");
  metrics_.Paused({PauseReason::kBattery});
  metrics_.Paused({PauseReason::kBattery, PauseReason::kThermal});
  Shows(R"(mpsd_paused{reason="battery"} 1
           mpsd_paused{reason="thermal"} 1
           mpsd_pauses_total{reason="battery"} 1)");
  metrics_.Paused({});
  metrics_.Paused({PauseReason::kBattery});
  Shows(R"(mpsd_pauses_total{reason="battery"} 2
           mpsd_paused{reason="thermal"} 0)");
}

TEST_F(JobMetricsTest, SaysWhatHoldsTheQueue) {
  Shows(R"(mpsd_held{reason="storage"} 0)");
  metrics_.Held({{jobs::HoldReason::kDisk, "full"}});
  Shows(R"(mpsd_held{reason="disk"} 1
           mpsd_held{reason="machine"} 0)");
  metrics_.Held({});
  Shows(R"(mpsd_held{reason="disk"} 0)");
}

TEST_F(JobMetricsTest, AnHourOfPauseAndHoldIsSeenWithinTheHour) {
  metrics_.Paused({jobs::PauseReason::kQuietHours});
  metrics_.Held({{jobs::HoldReason::kDisk, "full"}});
  for (int minutes : {0, 30, 60}) {
    const std::string seconds = std::to_string(minutes * 60);
    Shows(R"(mpsd_paused_seconds_total{reason="quiet_hours"} )" + seconds);
    Shows(R"(mpsd_held_seconds_total{reason="disk"} )" + seconds);
    clock_.Advance(absl::Minutes(30));
    clock_.SetBack(absl::Hours(5));  // the wall clock decides nothing
  }
  metrics_.Paused({});
  metrics_.Held({{jobs::HoldReason::kDisk, "fuller"}});
  clock_.Advance(absl::Minutes(30));
  Shows(R"(mpsd_paused_seconds_total{reason="quiet_hours"} 5400
           mpsd_paused_seconds_total{reason="battery"} 0
           mpsd_held_seconds_total{reason="disk"} 7200
           mpsd_holds_total{reason="disk"} 1)");
}

TEST_F(JobMetricsTest, ReportsWhatAWorkerSpendsItsTimeOn) {
  metrics_.JobStarted(Started("J1"));
  metrics_.DeviceOpened("J1", "mps");
  clock_.Advance(absl::Seconds(20));
  metrics_.StageBegan("training");
  metrics_.StageBegan("evaluating");
  clock_.Advance(absl::Seconds(5));
  metrics_.Evaluated("J1", "mps", {0, 3, 0, 5, {}});
  clock_.Advance(absl::Seconds(10));
  jobs::Progress step = Step();
  step.seconds = 10;
  step.data_wait_seconds = 4;
  metrics_.StepFinished("J1", step);
  clock_.Advance(absl::Seconds(3));
  metrics_.CheckpointWritten("J1", "mps", 3);
  metrics_.WorkerHalts(true);
  clock_.Advance(absl::Hours(1));
  Shows(R"(mpsd_phase_seconds_total{device="mps",phase="load"} 20
           mpsd_phase_seconds_total{device="mps",phase="train"} 6
           mpsd_phase_seconds_total{device="mps",phase="data_wait"} 4
           mpsd_phase_seconds_total{device="mps",phase="evaluate"} 5
           mpsd_phase_seconds_total{device="mps",phase="save"} 3
           mpsd_phase_seconds_total{device="mps",phase="paused"} 3600)");
  metrics_.WorkerHalts(false);
  clock_.Advance(absl::Seconds(1));
  Shows(R"(mpsd_phase_seconds_total{device="mps",phase="train"} 7
           mpsd_job_start_seconds_sum{device="mps"} 35)");
}

TEST_F(JobMetricsTest, TheQueuesEtaIsOfAllJobsOrNone) {
  Lacks("mpsd_queue_eta_seconds ");
  metrics_.QueueChanged({});
  Shows("mpsd_queue_eta_seconds 0");
  metrics_.JobStarted(Started("J1"));
  Lacks("mpsd_queue_eta_seconds ");
  jobs::Progress step = Step();
  step.eta_seconds = 100;
  metrics_.StepFinished("J1", step);
  Shows("mpsd_queue_eta_seconds 100");
  jobs::QueueDepth depth;
  depth.time_left = absl::Hours(1);
  metrics_.QueueChanged(depth);
  Shows("mpsd_queue_eta_seconds 3700");
  depth.time_left.reset();
  metrics_.QueueChanged(depth);
  Lacks("mpsd_queue_eta_seconds ");
}

TEST_F(JobMetricsTest, ReportsWhenTheLastStepAndCheckpointCame) {
  metrics_.CheckpointWritten("J1", "mps", 1);
  clock_.Advance(absl::Seconds(7));
  metrics_.StepFinished("J1", Step());
  Shows(
      R"(mpsd_job_last_checkpoint_timestamp_seconds{device="mps",job_id="J1"} 1767225600
           mpsd_job_last_step_timestamp_seconds{device="mps",job_id="J1"} 1767225607)");
}

TEST_F(JobMetricsTest, TheOldestQueuedJobGrowsOlderBetweenScrapes) {
  metrics_.QueueChanged({{{0, 1}}, {{"ada", 1}}, clock_.Now()});
  clock_.Advance(absl::Seconds(30));
  Shows(R"(mpsd_queue_oldest_age_seconds 30
           mpsd_queue_owner_jobs{owner="ada"} 1)");
}

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
      Named("mpsd_queue_priority_jobs")->help,
      HasSubstr(absl::StrCat("first ", QueueMetrics::kMostPriorities, " ")));
  EXPECT_THAT(Named("mpsd_queue_owner_jobs")->help,
              HasSubstr(absl::StrCat("first ", QueueMetrics::kMostOwners)));
}

// The phases of workers; times are seconds since the test began.
class WorkerTest : public JobMetricsTest {
 protected:
  void AdvanceTo(double seconds) {
    clock_.Advance(absl::Seconds(seconds) - clock_.Monotonic());
  }
  void StartAt(double seconds) {
    AdvanceTo(seconds);
    metrics_.JobStarted(Started("J1"));
  }
  void StepAt(double seconds, double took, double eta_seconds = 60) {
    AdvanceTo(seconds);
    jobs::Progress progress;
    progress.step = 1;
    progress.seconds = took;
    progress.eta_seconds = eta_seconds;
    progress.device = "mps";
    metrics_.StepFinished("J1", progress);
  }
  void ExitAt(double seconds) {
    AdvanceTo(seconds);
    metrics_.WorkerExited(jobs::ExitReason::kDone);
  }
  void ShowsPhase(const std::string& phase, int seconds,
                  const std::string& device = "mps") const {
    Shows("mpsd_phase_seconds_total{device=\"" + device + "\",phase=\"" +
          phase + "\"} " + std::to_string(seconds));
  }
};

// A scrape came while a worker of an earlier release wrote a checkpoint
// unannounced: what the scrape has shown as training stays shown.
TEST_F(WorkerTest, ACounterWaitsInsteadOfFalling) {
  StartAt(0);
  StepAt(10, 10);
  AdvanceTo(15);
  ShowsPhase("train", 15);
  AdvanceTo(16);
  metrics_.CheckpointWritten("J1", "mps", 6);
  ShowsPhase("train", 15);
  ShowsPhase("save", 6);
  AdvanceTo(20);
  ShowsPhase("train", 15);
  AdvanceTo(22);
  ShowsPhase("train", 16);
}

TEST_F(WorkerTest, AnAttemptsStartGoesWithItsWorker) {
  StartAt(0);
  Shows(R"(mpsd_job_attempt_start_timestamp_seconds{job_id="J1"} 1767225600)");
  ExitAt(2);
  Lacks("mpsd_job_attempt_start_timestamp_seconds{");
  // One that opened no device is counted.
  ShowsPhase("load", 2, "unknown");
}

TEST_F(WorkerTest, TheQueuesEtaHasTheTimeLeft) {
  jobs::QueueDepth depth;
  depth.time_left = absl::ZeroDuration();
  metrics_.QueueChanged(depth);
  Shows("mpsd_queue_eta_seconds 0");
  StartAt(0);
  Lacks("mpsd_queue_eta_seconds ");
  StepAt(10, 1);
  Shows("mpsd_queue_eta_seconds 60");
  StepAt(11, 1, std::nan(""));
  Lacks("mpsd_queue_eta_seconds ");
  ExitAt(12);
  Shows("mpsd_queue_eta_seconds 0");
  jobs::StartedJob again = Started("J1");
  again.time_left = absl::Seconds(33);
  metrics_.JobStarted(again);
  Shows("mpsd_queue_eta_seconds 33");
}

}  // namespace
}  // namespace mpsd::prometheus
