// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/jobs/meters.h"

namespace mpsd::fakes {

// Keeps what is reported to it. One thread at a time.
class FakeExportedMetrics final : public jobs::ExportedMetrics {
 public:
  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override {
    counts = jobs;
  }
  void QueueChanged(const jobs::QueueDepth& depth) override { queue = depth; }
  void JobStarted(const jobs::StartedJob& job) override {
    waits.push_back(job.queue_wait);
    started.push_back(job);
  }
  void DeviceOpened(const std::string&, const std::string& device) override {
    devices.push_back(device);
  }
  void StageBegan(const std::string& stage) override {
    stages.push_back(stage);
  }
  void WorkerHalts(bool halts) override { halting.push_back(halts); }
  void StepFinished(const std::string&, const jobs::Progress&) override {
    ++steps;
  }
  void Evaluated(const std::string&, const std::string& device,
                 const jobs::Evaluated& evaluated) override {
    eval_devices.push_back(device);
    eval_metrics.push_back(evaluated.metrics);
  }
  void CheckpointWritten(const std::string& job_id, const std::string&,
                         double seconds) override {
    checkpoint_jobs.push_back(job_id);
    checkpoint_seconds.push_back(seconds);
  }
  void WorkerExited(jobs::ExitReason reason) override {
    exits.push_back(reason);
  }
  void JobReturned(jobs::ExitReason reason) override {
    returned.push_back(reason);
  }
  void HostRead(const host::Reading& reading) override {
    readings.push_back(reading);
  }
  void Paused(const jobs::PauseReasons& reasons) override { paused = reasons; }
  void Held(const jobs::Holds& holds) override { held = holds; }
  void JobEnded(const std::string& job_id, jobs::State state) override {
    ended.push_back(job_id);
    end_states.push_back(state);
  }
  void JobDeleted(const std::string& job_id) override {
    deleted.push_back(job_id);
  }

  std::map<jobs::State, int64_t> counts;
  jobs::QueueDepth queue;
  std::vector<absl::Duration> waits;
  std::vector<jobs::StartedJob> started;
  int steps = 0;
  std::vector<std::string> eval_devices;
  std::vector<jobs::Metrics> eval_metrics;
  std::vector<double> checkpoint_seconds;
  std::vector<std::string> checkpoint_jobs;
  std::vector<jobs::ExitReason> exits, returned;
  std::vector<std::string> devices, stages;
  std::vector<bool> halting;
  std::vector<std::string> ended, deleted;
  std::vector<jobs::State> end_states;
  std::vector<host::Reading> readings;
  jobs::PauseReasons paused;
  jobs::Holds held;
};

}  // namespace mpsd::fakes
