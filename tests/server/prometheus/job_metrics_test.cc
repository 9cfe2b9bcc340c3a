// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/job_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_join.h"
#include "tests/server/prometheus/job_metrics_fixture.h"
#include "tests/server/prometheus/metric_reference.h"
#include "tests/server/prometheus/told_daemon_metrics.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

using JobMetricsTest = JobMetricsFixture;

TEST_F(JobMetricsTest, KnownSeriesStartAtZero) {
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_build_info{commit=\"unknown\",compiler=\"c\",torch="
                "\"2.15.0\",version=\"0.1.0\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs{state=\"queued\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_worker_exits_total{class=\"job\",reason="
                                "\"protocol_error\"} 0\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_retries_total{class=\"machine\",reason="
                        "\"machine\"} 0\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_job_retries_total{class=\"nobody\","
                                    "reason=\"done\"}")));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_paused_seconds_total{reason=\"thermal\"} 0\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_held_seconds_total{reason=\"disk\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_holds_total{reason=\"disk\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_queue_wait_seconds_count 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs_ended_total{state=\"failed\"} 0\n"));
  EXPECT_THAT(Text(),
              Not(HasSubstr("mpsd_jobs_ended_total{state=\"queued\"}")));
}

TEST_F(JobMetricsTest, CountsJobsByState) {
  exported_metrics_.JobCounts(
      {{jobs::State::kQueued, 2}, {jobs::State::kRunning, 1}});
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs{state=\"queued\"} 2\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs{state=\"running\"} 1\n"));
  exported_metrics_.JobCounts({{jobs::State::kSucceeded, 3}});
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs{state=\"queued\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs{state=\"succeeded\"} 3\n"));
}

TEST_F(JobMetricsTest, SharesOfPaddingAndWaitingWhereTheyAreKnown) {
  exported_metrics_.StepFinished("J1", Step());
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_job_padding_ratio{")));
  jobs::Progress step = Step();
  step.padding_ratio = 0.25;
  step.data_wait_ratio = 0.125;
  exported_metrics_.StepFinished("J1", step);
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_padding_ratio{device=\"mps\",job_id="
                                "\"J1\"} 0.25\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_data_wait_ratio{device=\"mps\",job_id="
                        "\"J1\"} 0.125\n"));
}

TEST_F(JobMetricsTest, HowBusyTheDeviceIsWhereItTells) {
  exported_metrics_.StepFinished("J1", Step());
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_job_device_utilization_ratio{")));
  jobs::Progress step = Step();
  step.device_utilization_ratio = 0.75;
  exported_metrics_.StepFinished("J1", step);
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_job_device_utilization_ratio{device=\"mps\",job_id="
                "\"J1\"} 0.75\n"));
}

TEST_F(JobMetricsTest, AStepSetsItsSeries) {
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.StepFinished("J1", Step());
  for (const char* line :
       {"mpsd_job_loss{device=\"mps\",job_id=\"J1\"} 2.5\n",
        "mpsd_job_learning_rate{device=\"mps\",job_id=\"J1\"} 0.001\n",
        "mpsd_job_grad_norm{device=\"mps\",job_id=\"J1\"} 0.75\n",
        "mpsd_job_step{device=\"mps\",job_id=\"J1\"} 1\n",
        "mpsd_job_planned_steps{device=\"mps\",job_id=\"J1\"} 9\n",
        "mpsd_job_epoch{device=\"mps\",job_id=\"J1\"} 0.25\n",
        "mpsd_job_eta_seconds{device=\"mps\",job_id=\"J1\"} 1.5\n",
        "mpsd_job_tokens_per_second{device=\"mps\",job_id=\"J1\"} 500\n",
        "mpsd_job_last_step_timestamp_seconds{device=\"mps\",job_id=\"J1\"} "
        "1767225600\n",
        "mpsd_steps_total{device=\"mps\"} 2\n",
        "mpsd_tokens_total{device=\"mps\"} 200\n",
        "mpsd_step_seconds_count{device=\"mps\"} 2\n",
        "mpsd_step_seconds_bucket{device=\"mps\",le=\"0.2\"} 2\n",
        "mpsd_step_seconds_bucket{device=\"mps\",le=\"0.1\"} 0\n",
        "mpsd_device_memory_current_allocated_bytes{device=\"mps\"} 1000\n",
        "mpsd_device_memory_driver_allocated_bytes{device=\"mps\"} 2000\n",
        "mpsd_device_memory_recommended_max_bytes{device=\"mps\"} 3000\n",
        "mpsd_device_memory_peak_allocated_bytes{device=\"mps\"} 5000\n",
        "mpsd_worker_footprint_bytes{device=\"mps\"} 4000\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
}

TEST_F(JobMetricsTest, ACounterTheDeviceLacksHasNoSeries) {
  jobs::Progress progress = Step();
  progress.memory = {};
  exported_metrics_.StepFinished("J1", progress);
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_device_memory")));
}

TEST_F(JobMetricsTest, CountsOperatorsOnTheCpu) {
  const std::string a =
      "mpsd_cpu_fallback_ops_total{device=\"mps\",op=\"aten::a\"} ";
  jobs::Progress progress = Step();
  progress.cpu_fallback_ops = {{"aten::a", 3}, {"aten::b", 1}};
  exported_metrics_.StepFinished("J1", progress);
  exported_metrics_.StepFinished("J1", progress);
  EXPECT_THAT(Text(), HasSubstr(a + "3\n"));
  progress.cpu_fallback_ops["aten::a"] = 5;
  exported_metrics_.StepFinished("J1", progress);
  EXPECT_THAT(Text(), HasSubstr(a + "5\n"));
  // Another job's count starts anew, and one goes back to a checkpoint.
  progress.cpu_fallback_ops = {{"aten::a", 1}};
  exported_metrics_.StepFinished("J2", progress);
  exported_metrics_.StepFinished("J1", progress);
  EXPECT_THAT(Text(), HasSubstr(a + "6\n"));
}

TEST_F(JobMetricsTest, SaysWhatTheMachineSays) {
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_host_")));
  host::Reading reading = TheReading();
  exported_metrics_.HostRead(reading);
  for (const char* line :
       {"mpsd_host_on_battery 1\n", "mpsd_host_battery_ratio 0.5\n",
        "mpsd_host_low_power_mode 1\n", "mpsd_host_thermal_level 2\n",
        "mpsd_host_memory_pressure_level 1\n",
        "mpsd_host_swap_used_bytes 1024\n",
        "mpsd_host_gpu_utilization_ratio 0.75\n", "mpsd_host_gpu_resets 2\n",
        "mpsd_host_wired_limit_bytes 0\n",
        "mpsd_host_user_idle_seconds 3.5\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
  reading.battery_ratio.reset();
  reading.power_source = host::PowerSource::kMains;
  exported_metrics_.HostRead(reading);
  EXPECT_THAT(Text(), HasSubstr("mpsd_host_on_battery 0\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_host_battery_ratio")));
}

TEST_F(JobMetricsTest, MemoryGoesWithItsWorker) {
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.WorkerExited(jobs::ExitReason::kCrashed);
  EXPECT_THAT(Text(), Not(HasSubstr("current_allocated_bytes{")));
  EXPECT_THAT(Text(), HasSubstr("mpsd_worker_exits_total{class=\"job\",reason="
                                "\"crashed\"} 1\n"));
  exported_metrics_.StepFinished("J1", Step());
  EXPECT_THAT(Text(), HasSubstr("current_allocated_bytes{"));
}

TEST_F(JobMetricsTest, CountsTheReturnsToTheQueue) {
  exported_metrics_.JobReturned(jobs::ExitReason::kHung);
  exported_metrics_.JobReturned(jobs::ExitReason::kInterrupted);
  exported_metrics_.JobReturned(jobs::ExitReason::kHung);
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_retries_total{class=\"job\",reason="
                                "\"hung\"} 2\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_retries_total{class=\"interruption\",reason="
                        "\"interrupted\"} 1\n"));
}

// A worker of an earlier release tells its device with the first step.
TEST_F(JobMetricsTest, SeriesMoveToTheDeviceOnceItIsKnown) {
  exported_metrics_.JobStarted(Started("J1"));
  exported_metrics_.Evaluated("J1", "", {1, 3, 0, 0, {{"f1", 0.5}}});
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_job_eval_loss{device=\"unknown\",job_id=\"J1\"} 3\n"));
  exported_metrics_.StepFinished("J1", Step());
  for (const char* line :
       {"mpsd_job_eval_loss{device=\"mps\",job_id=\"J1\"} 3\n",
        "mpsd_job_eval_metric{device=\"mps\",job_id=\"J1\",metric=\"f1\"} "
        "0.5\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
  // The next attempt has not told its device yet.
  exported_metrics_.Evaluated("J1", "", {2, 2, 0, 0, {}});
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_job_eval_loss{device=\"mps\",job_id=\"J1\"} 2\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("device=\"unknown\"")));
}

TEST_F(JobMetricsTest, AJobOnAnotherDeviceLeavesNoSeriesBehind) {
  exported_metrics_.JobStarted(Started("J1"));
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.Evaluated("J1", "mps", {1, 3, 0, 0, {{"f1", 0.5}}});
  exported_metrics_.WorkerExited(jobs::ExitReason::kCrashed);
  exported_metrics_.JobStarted(Started("J1"));
  exported_metrics_.DeviceOpened("J1", "cpu");
  EXPECT_THAT(Text(), Not(HasSubstr("device=\"mps\",job_id=")));
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_job_eval_loss{device=\"cpu\",job_id=\"J1\"} 3\n"));
  jobs::Progress step = Step();
  step.device = "cpu";
  step.loss = 1.25;
  exported_metrics_.StepFinished("J1", step);
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_job_loss{device=\"cpu\",job_id=\"J1\"} 1.25\n"));
  exported_metrics_.WorkerExited(jobs::ExitReason::kDone);
  exported_metrics_.JobEnded("J1", jobs::State::kSucceeded);
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=")));
}

TEST_F(JobMetricsTest, ManyDevicesShareALabel) {
  jobs::Progress step = Step();
  for (int i = 0; i < 100; ++i) {
    step.device = "tpu" + std::to_string(i);
    exported_metrics_.StepFinished("J1", step);
  }
  EXPECT_THAT(Text(), HasSubstr("mpsd_steps_total{device=\"tpu7\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_steps_total{device=\"other\"} 92\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("tpu8")));
}

TEST_F(JobMetricsTest, EveryMetricOfATaskHasASeries) {
  exported_metrics_.Evaluated("J1", "", {0, 3, 0, 0, {{"accuracy", 0.25}}});
  exported_metrics_.StepFinished("J1", Step());
  const std::string f1 =
      "mpsd_job_eval_metric{device=\"mps\",job_id=\"J1\",metric=\"f1\"} ";
  const std::string accuracy =
      "mpsd_job_eval_metric{device=\"mps\",job_id=\"J1\",metric=\"accuracy\"} ";
  EXPECT_THAT(Text(), HasSubstr(accuracy + "0.25\n"));
  exported_metrics_.Evaluated("J1", "mps",
                              {1, 2, 0, 0, {{"accuracy", 0.5}, {"f1", 0.75}}});
  EXPECT_THAT(Text(), HasSubstr(accuracy + "0.5\n"));
  EXPECT_THAT(Text(), HasSubstr(f1 + "0.75\n"));
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_job_eval_metric{")));
}

TEST_F(JobMetricsTest, AnEndedJobsSeriesLingerAndGo) {
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.StepFinished("J2", Step());
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(10) - absl::Seconds(1));
  EXPECT_THAT(Text(), HasSubstr("job_id=\"J1\""));
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=\"J1\"")));
  EXPECT_THAT(Text(), HasSubstr("mpsd_job_loss{device=\"mps\",job_id=\"J2\"}"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_tokens_total{device=\"mps\"} 200\n"));
}

TEST_F(JobMetricsTest, ADeletedJobsSeriesGoAtOnce) {
  exported_metrics_.Evaluated("J1", "mps", {1, 2, 0, 0, {{"f1", 0.75}}});
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.StepFinished("J2", Step());
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  exported_metrics_.JobDeleted("J1");
  exported_metrics_.JobDeleted("J3");
  EXPECT_THAT(Text(), Not(HasSubstr("job_id=\"J1\"")));
  EXPECT_THAT(Text(), HasSubstr("job_id=\"J2\""));
}

TEST_F(JobMetricsTest, SeriesOfEndedJobsGoWithoutACollector) {
  for (int i = 0; i < 100; ++i) {
    const std::string id = "J" + std::to_string(i);
    exported_metrics_.StepFinished(id, Step());
    exported_metrics_.JobEnded(id, jobs::State::kSucceeded);
    clock_.Advance(absl::Minutes(5));
    EXPECT_LE(exported_metrics_.job_series(), 3u);
  }
  // A step is enough, and so is an end.
  exported_metrics_.StepFinished("J", Step());
  clock_.Advance(absl::Minutes(10));
  exported_metrics_.StepFinished("J", Step());
  EXPECT_EQ(exported_metrics_.job_series(), 1u);
}

TEST_F(JobMetricsTest, AJobThatIsTriedAgainKeepsItsSeries) {
  exported_metrics_.StepFinished("J1", Step());
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(9));
  exported_metrics_.StepFinished("J1", Step());
  clock_.Advance(absl::Minutes(9));
  EXPECT_THAT(Text(), HasSubstr("job_id=\"J1\""));
}

TEST_F(JobMetricsTest, SaysWhatAJobIsUntilItsSeriesGo) {
  const std::string info =
      "mpsd_job_info{job_id=\"J1\",model=\"org/tiny\",name=\"night run\","
      "owner=\"ada\",task=\"CAUSAL_LM\"} 1\n";
  exported_metrics_.JobStarted(Started("J1"));
  EXPECT_THAT(Text(), HasSubstr(info));
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  clock_.Advance(absl::Minutes(9));
  // Somebody tries the job again, and its model takes long to load.
  exported_metrics_.JobStarted(Started("J1"));
  clock_.Advance(absl::Minutes(9));
  EXPECT_THAT(Text(), HasSubstr(info));
  exported_metrics_.JobEnded("J1", jobs::State::kSucceeded);
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_job_info{")));
}

// Whoever may read the metrics is no owner.
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
       {"mpsd_job_info{job_id=\"J1\",model=\"\",name=\"\",owner=\"ada\","
        "task=\"\"} 1\n",
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
  exported_metrics_.JobStarted(job);
  EXPECT_LT(Text().size(), 100'000u);
}

TEST_F(JobMetricsTest, CountsTheJobsThatEnd) {
  exported_metrics_.JobEnded("J1", jobs::State::kFailed);
  exported_metrics_.JobEnded("J2", jobs::State::kFailed);
  EXPECT_THAT(Text(), HasSubstr("mpsd_jobs_ended_total{state=\"failed\"} 2\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_jobs_ended_total{state=\"succeeded\"} 0\n"));
}

TEST_F(JobMetricsTest, TellsWhatTheProcessTakes) {
  for (const char* name :
       {"process_cpu_seconds_total", "process_resident_memory_bytes",
        "process_open_fds", "process_max_fds", "process_start_time_seconds"}) {
    EXPECT_THAT(Text(), HasSubstr(std::string("\n") + name + " "));
  }
}

// What `promtool check metrics` asks for.
TEST_F(JobMetricsTest, NamesFollowTheConventions) {
  TellEverything();
  std::set<std::string> names;
  for (const ::prometheus::MetricFamily& family : exported_metrics_.Collect()) {
    const std::string& name = family.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(name.starts_with("mpsd_") || name.starts_with("process_"));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos);
    EXPECT_TRUE(family.help.ends_with('.')) << name << " lacks its help";
    EXPECT_FALSE(family.metric.empty()) << name;
    EXPECT_EQ(name.ends_with("_total"),
              family.type == ::prometheus::MetricType::Counter)
        << name;
    EXPECT_TRUE(family.type != ::prometheus::MetricType::Histogram ||
                name.ends_with("_seconds"))
        << name;
  }
}

TEST_F(JobMetricsTest, CountsNotifications) {
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_notifications_total{result=\"dropped\"} 0\n"));
  exported_metrics_.Notified("sent");
  exported_metrics_.Notified("sent");
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_notifications_total{result=\"sent\"} 2\n"));
}

// The table of deploy/README.md is made of AllMetrics().
TEST_F(JobMetricsTest, TheTableOfMetricsIsWhatAScrapeHas) {
  TellEverything();
  DaemonMetrics daemon_metrics(clock_);
  TellEverythingOf(daemon_metrics);
  std::vector<::prometheus::MetricFamily> families =
      exported_metrics_.Collect();
  for (::prometheus::MetricFamily& family : daemon_metrics.Collect()) {
    families.push_back(std::move(family));
  }
  std::map<std::string, Metric> expected;
  for (const Metric& metric : AllMetrics())
    expected.insert({metric.name, metric});
  expected.erase(kCertificateExpiry.name);  // Exposition's own
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

}  // namespace
}  // namespace mpsd::prometheus
