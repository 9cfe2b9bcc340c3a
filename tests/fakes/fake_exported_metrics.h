// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_FAKE_EXPORTED_METRICS_H_
#define MPSD_TESTS_FAKES_FAKE_EXPORTED_METRICS_H_

#include <map>
#include <string>
#include <vector>

#include "server/jobs/exported_metrics.h"

namespace mpsd::fakes {

// Keeps what it is told. One thread at a time.
class FakeExportedMetrics final : public jobs::ExportedMetrics {
 public:
  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override {
    counts = jobs;
  }
  void JobStarted(absl::Duration queue_wait) override {
    waits.push_back(queue_wait);
  }
  void StepFinished(const std::string&, const jobs::Progress&) override {
    ++steps;
  }
  void Evaluated(const std::string&, const std::string& device,
                 const jobs::Evaluated& evaluated) override {
    eval_devices.push_back(device);
    eval_metrics.push_back(evaluated.metrics);
  }
  void CheckpointWritten(const std::string&, double seconds) override {
    checkpoint_seconds.push_back(seconds);
  }
  void WorkerExited(jobs::ExitReason reason) override {
    exits.push_back(reason);
  }
  void HostRead(const host::Reading& reading) override {
    readings.push_back(reading);
  }
  void Paused(const jobs::PauseReasons& reasons) override { paused = reasons; }
  void Held(const jobs::Holds& holds) override { held = holds; }
  void JobEnded(const std::string& job_id) override { ended.push_back(job_id); }
  void JobDeleted(const std::string& job_id) override {
    deleted.push_back(job_id);
  }

  std::map<jobs::State, int64_t> counts;
  std::vector<absl::Duration> waits;
  int steps = 0;
  std::vector<std::string> eval_devices;
  std::vector<jobs::Metrics> eval_metrics;
  std::vector<double> checkpoint_seconds;
  std::vector<jobs::ExitReason> exits;
  std::vector<std::string> ended, deleted;
  std::vector<host::Reading> readings;
  jobs::PauseReasons paused;
  jobs::Holds held;
};

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_FAKE_EXPORTED_METRICS_H_
