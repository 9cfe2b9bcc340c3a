// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_JOBS_SCHEDULER_FIXTURE_H_
#define MPSD_TESTS_SERVER_JOBS_SCHEDULER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/jobs/scheduler.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_job_store.h"
#include "tests/fakes/fake_kept_jobs.h"
#include "tests/fakes/fake_launcher.h"

namespace mpsd::jobs {

// A scheduler among fakes: no time passes, no process runs, nothing is written.
class SchedulerFixture : public testing::Test {
 protected:
  SchedulerFixture() {
    files_.models["org/tiny"] =
        JobFiles::Model{"/models/tiny", fakes::TinyModel()};
    files_.paths = {"/data/train.jsonl"};
    Restart();
  }

  // As a daemon that died and came back.
  void Restart() {
    scheduler_.reset();
    Scheduler::Options options;
    options.retry = {3, 5, absl::Seconds(10), absl::Seconds(60)};
    options.min_free_bytes = 1000;
    options.machine_bytes = machine_bytes_;
    options.boot_id = boot_id_;
    options.random = [] { return uint64_t{7}; };
    options.on_change = [this] { ++changes_; };
    options.log = [this](const std::string& line) {
      if (on_log_) on_log_();
      log_.push_back(line);
    };
    options.pause = pause_;
    options.half_life = half_life_;
    options.use_interval = use_interval_;
    options.preemption = preemption_;
    options.time_limit = time_limit_;
    options.awake_time = [this] { return clock_.Monotonic(); };
    board_ = std::make_unique<JobBoard>(store_, files_, clock_);
    scheduler_ = std::make_unique<Scheduler>(
        options,
        Scheduler::Dependencies{store_, blobs_, files_, *board_, launcher_,
                                exported_metrics_, clock_, host_, ledger_,
                                &kept_, &folders_, keep_record_});
  }

  static SubmitRequest Request() {
    SubmitRequest request;
    request.spec_json =
        R"({"model": "org/tiny", "dataset": {"train": "/data/train.jsonl"}})";
    return request;
  }
  std::string Submit(int32_t priority = 0) {
    SubmitRequest request = Request();
    request.priority = priority;
    auto result = scheduler_->Submit(request);
    EXPECT_TRUE(result.ok()) << result.status();
    clock_.Advance(absl::Milliseconds(1));
    return result.ok() ? result->job.id : "";
  }

  // As kill -9 leaves it: the row says RUNNING.
  void KillAndRestart() {
    launcher_.listener = nullptr;
    Restart();
    ASSERT_TRUE(scheduler_->Recover().ok());
  }

  Job Stored(const std::string& id) { return *store_.Get(id); }
  State StateOf(const std::string& id) { return Stored(id).state; }
  std::string Running() { return board_->Info().running_job_id; }
  WorkerListener& Worker() { return *launcher_.listener; }

  static Progress Step(int64_t step, int64_t total = 100) {
    Progress progress;
    progress.step = step;
    progress.total_steps = total;
    progress.tokens = 50;
    progress.seconds = 0.5;
    progress.device = "mps";
    progress.memory.footprint_bytes = 123;
    return progress;
  }
  static report::Checkpointed At(int64_t step, const std::string& path,
                                 std::vector<std::string> removed_paths = {}) {
    return {step, path, 0, 0.25, std::move(removed_paths)};
  }
  // The states of the job's events, in order.
  std::vector<State> History(const std::string& id) {
    std::vector<State> states;
    const std::vector<Event> events = *board_->Events(id, 0);
    for (const Event& event : events) {
      const auto* change = std::get_if<StateChanged>(&event.body);
      if (change != nullptr) states.push_back(change->state);
    }
    return states;
  }

  fakes::FakeClock clock_;
  fakes::FakeJobStore store_;
  fakes::FakeJobFiles files_;
  fakes::FakeBlobs blobs_;
  fakes::FakeLauncher launcher_;
  fakes::FakeExportedMetrics exported_metrics_;
  std::atomic<int> changes_{0};  // counted on any thread
  std::vector<std::string> log_;
  std::function<void()> on_log_;  // before each line
  int64_t machine_bytes_ = 0;
  std::string boot_id_ = "boot 1";
  PausePolicy pause_;
  absl::Duration half_life_;
  PreemptionPolicy preemption_;
  std::function<absl::Duration(const std::string&)> time_limit_;
  absl::Duration use_interval_ = absl::InfiniteDuration();
  host::Host* host_ = nullptr;
  UserLedger* ledger_ = nullptr;
  std::function<absl::Status(const std::string&)> keep_record_;
  fakes::FakeKeptJobs kept_;
  MeasuredFolders folders_;
  std::unique_ptr<JobBoard> board_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_TESTS_SERVER_JOBS_SCHEDULER_FIXTURE_H_
