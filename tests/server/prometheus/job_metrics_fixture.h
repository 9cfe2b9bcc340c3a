// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_PROMETHEUS_JOB_METRICS_FIXTURE_H_
#define MPSD_TESTS_SERVER_PROMETHEUS_JOB_METRICS_FIXTURE_H_

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "server/prometheus/job_metrics.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::prometheus {

class JobMetricsFixture : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(
        exported_metrics_.Collect());
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
  void TellEverything() {
    jobs::Progress progress = Step();
    progress.cpu_fallback_ops = {{"aten::a", 1}};
    progress.padding_ratio = progress.data_wait_ratio = 0.5;
    progress.device_utilization_ratio = 0.5;
    exported_metrics_.QueueChanged({{{0, 1}}, {{"ada", 1}}, clock_.Now()});
    exported_metrics_.JobStarted(Started("J1"));
    exported_metrics_.DeviceOpened("J1", "mps");
    exported_metrics_.StepFinished("J1", progress);
    exported_metrics_.Evaluated("J1", "mps", {1, 1, 0, 0, {{"accuracy", 1}}});
    exported_metrics_.CheckpointWritten("J1", "mps", 1);
    exported_metrics_.HostRead(TheReading());
  }

  fakes::FakeClock clock_;
  JobMetrics exported_metrics_{{{{"commit", "unknown"},
                                 {"compiler", "c"},
                                 {"torch", "2.15.0"},
                                 {"version", "0.1.0"}},
                                absl::Minutes(10)},
                               clock_};
};

}  // namespace mpsd::prometheus

#endif  // MPSD_TESTS_SERVER_PROMETHEUS_JOB_METRICS_FIXTURE_H_
