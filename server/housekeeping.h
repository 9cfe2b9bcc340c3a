// SPDX-License-Identifier: Apache-2.0
// What mpsd does from time to time: a ticker, removal of what is no longer
// needed, measurements of the state folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/monitor.h"
#include "server/http/daemon_metrics.h"
#include "server/jobs/collector.h"
#include "server/jobs/user_limits.h"
#include "server/state_dir.h"
#include "server/store/job_store.h"

namespace mpsd {

// A thread that calls a function at the time that the function returned last,
// or when WakeUp() is called. Thread-safe; the destructor joins the thread.
class Ticker {
 public:
  ~Ticker() { Stop(); }

  // At most once. `tick` returns the time until which no call is needed.
  void Start(std::function<absl::Time()> tick);
  // Makes the next call come soon, also when it is called before Start.
  void WakeUp();
  // Whether `done` holds, now or after some call within `timeout`. False once
  // Stop was called.
  bool Await(const std::function<bool()>& done,
             absl::Duration timeout = absl::InfiniteDuration());
  // Waits for a call in progress.
  void Stop();

 private:
  void Run();

  std::function<absl::Time()> tick_;
  base::Monitor mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// Removes what is no longer needed, on its own thread: once the leftovers of
// killed daemons, and periodically replaced revisions of models and what the
// collector names.
class Housekeeping {
 public:
  struct Options {
    std::filesystem::path jobs_dir;
    absl::Duration blob_grace;
    // Removes revisions of models that no job uses any more; returns how many.
    std::function<absl::StatusOr<int>()> sweep_models = [] { return 0; };
    // The time between two checks of jobs that have ended.
    absl::Duration interval = absl::Seconds(15);
    // Jobs that ended this recently are kept, whatever the rules.
    absl::Duration fresh = absl::Hours(1);
    // The state folder's budget, in bytes; 0: none.
    int64_t budget_bytes = 0;
    // The rules of users, and the counter of removals; both must outlive the
    // Housekeeping. Null: there are no rules, and nothing is counted.
    const jobs::LimitSettings* limits = nullptr;
    prometheus::DaemonMetrics* metrics = nullptr;
    // Gets one line for each removal or failed removal.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // The dependencies must outlive the Housekeeping.
  Housekeeping(Options options, jobs::Collector::Dependencies dependencies);
  ~Housekeeping() { Stop(); }

  // Finds what to remove; call it before the first job is submitted or deleted.
  // Removal continues after Start returns. Start logs what it cannot inspect
  // and leaves it in place.
  void Start(jobs::JobStore& store);
  jobs::Collector& collector() { return collector_; }
  // Waits for the removal in progress, of one job or of the blobs.
  void Stop() {
    stopping_ = true;
    ticker_.Stop();
  }

 private:
  absl::Time Tidy();
  void TendBallast();
  void SweepModels();

  const Options options_;
  jobs::Collector collector_;
  std::atomic<bool> stopping_ = false;
  // Once started, used only by the ticker's thread.
  std::vector<std::filesystem::path> garbage_;
  absl::Duration next_blobs_;  // monotonic
  bool has_ballast_ = true;
  Ticker ticker_;
};

// Measures the state folder and its disk periodically, on its own thread, for
// the metrics and the limits of users. A hanging disk stops only the
// measurements: neither a scrape nor the end of mpsd waits for it.
class DiskWatch {
 public:
  struct Room {
    int64_t free_bytes = 0;  // for mpsd's user
    int64_t size_bytes = 0;
  };
  struct Options {
    std::filesystem::path state_dir;
    absl::Duration room_interval = absl::Seconds(15);
    // The time between two walks through the folder; longer if a walk takes
    // more than a twentieth of it.
    absl::Duration usage_interval = absl::Minutes(1);
    // How long the metrics show a measurement after the next one was due.
    absl::Duration grace = absl::Minutes(5);
    // Gets the bytes of each job's folder.
    std::shared_ptr<jobs::MeasuredFolders> folders =
        std::make_shared<jobs::MeasuredFolders>();
    // Gets a line when measuring begins to fail.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    // The measurements; tests replace them.
    std::function<absl::StatusOr<Room>(const std::filesystem::path&)>
        measure_room = MeasureRoom;
    std::function<absl::StatusOr<StateUsage>(const std::filesystem::path&,
                                             const std::atomic<bool>& stop)>
        measure_usage = MeasureState;
  };

  // Starts the thread.
  DiskWatch(Options options,
            std::shared_ptr<prometheus::DaemonMetrics> metrics);
  // Waits briefly for a measurement in progress. If it hangs, its thread and
  // what the thread uses stay alive.
  ~DiskWatch();

  static absl::StatusOr<Room> MeasureRoom(const std::filesystem::path& folder);

 private:
  class Measurements;

  const std::shared_ptr<Measurements> measurements_;
  std::shared_ptr<Ticker> ticker_;
};

}  // namespace mpsd
