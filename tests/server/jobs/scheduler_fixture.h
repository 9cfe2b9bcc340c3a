// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/jobs/scheduler.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_host.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_launcher.h"
#include "tests/fakes/test_store.h"

namespace mpsd::jobs {

// A scheduler among fakes, with the stores in memory: no time passes, no
// process runs, nothing is written.
class SchedulerFixture : public testing::Test {
 protected:
  SchedulerFixture() : SchedulerFixture(std::make_unique<fakes::TestStore>()) {}
  explicit SchedulerFixture(std::unique_ptr<fakes::TestStore> store)
      : db_(std::move(store)) {
    db_->on_commit() = [this] { ++commits_; };
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
    options.check_patience = check_patience_;
    options.boot_id = boot_id_;
    options.random = [] { return uint64_t{7}; };
    options.on_change = [this] { ++changes_; };
    options.give_up = [this](const std::string& why) { gave_up_ = why; };
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
    board_ = std::make_unique<JobReader>(store_, files_, clock_);
    scheduler_ = std::make_unique<Scheduler>(
        options,
        Scheduler::Dependencies{store_, blobs_, files_, *board_, launcher_,
                                exported_metrics_, clock_, host_, ledger_,
                                &db_->kept, &folders_, keep_record_});
  }

  static SubmitRequest Request() {
    SubmitRequest request;
    request.spec_json =
        R"({"model": "org/tiny", "dataset": {"train": "/data/train.jsonl"}})";
    return request;
  }
  std::string Submit(int32_t priority = 0, const std::string& owner = "") {
    SubmitRequest request = Request();
    request.owner = owner;
    request.priority = priority;
    auto result = scheduler_->Submit(request);
    EXPECT_TRUE(result.ok()) << result.status();
    clock_.Advance(absl::Milliseconds(1));
    return result.ok() ? result->job.id : "";
  }
  std::string SubmitFor(const std::string& owner, int32_t priority = 0) {
    return Submit(priority, owner);
  }
  // Submits a job that starts at once.
  std::string Start(int32_t priority = 0, const std::string& owner = "") {
    const std::string id = Submit(priority, owner);
    EXPECT_EQ(Next(), id);
    return id;
  }
  std::string StartFor(const std::string& owner, int32_t priority = 0) {
    return Start(priority, owner);
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
  // The job that runs once the queue was looked at.
  std::string Next() {
    scheduler_->Tick();
    return Running();
  }
  void After(absl::Duration time) {
    clock_.Advance(time);
    scheduler_->Tick();
  }
  // Ends the running job.
  void End(ExitReason reason, const std::string& message = "") {
    launcher_.Exit(reason, message);
    scheduler_->Tick();
  }
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
  // A machine on mains, where jobs pause on battery.
  void PauseOnBattery() {
    machine_.reading.power_source = host::PowerSource::kMains;
    host_ = &machine_;
    pause_.on_battery = true;
    Restart();
  }
  void Unplug() {
    machine_.reading.power_source = host::PowerSource::kBattery;
    After(absl::Seconds(5));
  }
  void PlugIn() {
    machine_.reading.power_source = host::PowerSource::kMains;
    After(absl::Seconds(5));
  }
  void RunToEnd(const std::string& id, ExitReason reason) {
    ASSERT_EQ(Next(), id);
    End(reason);
  }

  // The states of the job's events, in order.
  std::vector<State> History(const std::string& id) {
    std::vector<State> states;
    for (const auto& change : EventsOf<StateChanged>(id)) {
      states.push_back(change.state);
    }
    return states;
  }
  std::vector<std::string> Notes(const std::string& id) {
    std::vector<std::string> notes;
    for (const Note& note : EventsOf<Note>(id)) notes.push_back(note.text);
    return notes;
  }
  template <typename Body>
  std::vector<Body> EventsOf(const std::string& id) {
    std::vector<Body> bodies;
    const std::vector<Event> events = *board_->Events(id, 0);
    for (const Event& event : events) {
      const auto* body = std::get_if<Body>(&event.body);
      if (body != nullptr) bodies.push_back(*body);
    }
    return bodies;
  }
  std::vector<std::string> Order() {
    std::vector<std::string> ids;
    for (const QueuePlace& place : board_->Queue(100).places) {
      ids.push_back(place.id);
    }
    return ids;
  }
  int LinesWith(const std::string& text) {
    return static_cast<int>(
        std::count_if(log_.begin(), log_.end(), [&](const std::string& line) {
          return line.find(text) != std::string::npos;
        }));
  }

  fakes::FakeClock clock_;
  const std::unique_ptr<fakes::TestStore> db_;
  JobStore& store_ = db_->rows;
  std::atomic<int> commits_{0};
  fakes::FakeJobFiles files_;
  fakes::FakeBlobs blobs_;
  fakes::FakeLauncher launcher_;
  fakes::FakeExportedMetrics exported_metrics_;
  std::atomic<int> changes_{0};  // counted on any thread
  std::vector<std::string> log_;
  std::string gave_up_;           // why
  std::function<void()> on_log_;  // before each line
  int64_t machine_bytes_ = 0;
  absl::Duration check_patience_;
  std::string boot_id_ = "boot 1";
  PausePolicy pause_;
  absl::Duration half_life_;
  PreemptionPolicy preemption_;
  std::function<absl::Duration(const std::string&)> time_limit_;
  absl::Duration use_interval_ = absl::InfiniteDuration();
  fakes::FakeHost machine_;
  host::Host* host_ = nullptr;  // or `machine_`
  UserLedger* ledger_ = nullptr;
  std::function<absl::Status(const std::string&)> keep_record_;
  MeasuredFolders folders_;
  std::unique_ptr<JobReader> board_;
  std::unique_ptr<Scheduler> scheduler_;
};

// A scheduler that divides the device among several owners.
class SchedulerShareFixture : public SchedulerFixture {
 protected:
  SchedulerShareFixture() {
    half_life_ = absl::Hours(24);
    use_interval_ = absl::Minutes(1);
    preemption_.enabled = true;
    Restart();
  }

  // Ends the running job, after `time`.
  void RunFor(absl::Duration time) {
    clock_.Advance(time);
    End(ExitReason::kDone);
  }
  double Used(const std::string& owner) {
    const QueueListing listing = board_->Queue(100);
    for (const OwnerUse& use : listing.usage) {
      if (use.owner == owner) return use.seconds;
    }
    return 0;
  }
  // A job of bob's that would take the device from one at work.
  std::string Challenge() {
    const std::string id = SubmitFor("bob", 5);
    scheduler_->Tick();
    return id;
  }
  // A running job of ann's that others may take the device from.
  std::string LongAtWork() {
    const std::string id = StartFor("ann");
    Worker().OnProgress(Step(1, 100'000));
    After(absl::Minutes(6));
    return id;
  }
};

}  // namespace mpsd::jobs
