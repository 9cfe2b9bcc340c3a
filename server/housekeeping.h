// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HOUSEKEEPING_H_
#define MPSD_SERVER_HOUSEKEEPING_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_store.h"
#include "server/jobs/user_limits.h"
#include "server/http/daemon_metrics.h"
#include "server/jobs/retention.h"
#include "server/ticker.h"

namespace mpsd {

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
  Housekeeping(Options options,
               retention::Collector::Dependencies dependencies);
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
  void SweepModels();

  const Options options_;
  retention::Collector collector_;
  std::atomic<bool> stopping_ = false;
  // Once started, used only by the ticker's thread.
  std::vector<std::filesystem::path> garbage_;
  absl::Duration next_blobs_;  // monotonic
  Ticker ticker_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_HOUSEKEEPING_H_
