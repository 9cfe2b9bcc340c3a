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
#include "server/prometheus/daemon_metrics.h"
#include "server/retention/collector.h"
#include "server/ticker.h"

namespace mpsd {

// Removes what nobody needs, on a thread of its own: once the leftovers of
// daemons that were killed, and from time to time revisions of models that were
// replaced and what the collector names.
class Housekeeping {
 public:
  struct Options {
    std::filesystem::path jobs_dir;
    absl::Duration blob_grace;
    // Removes revisions of models that no job has any more; returns how many.
    std::function<absl::StatusOr<int>()> sweep_models = [] { return 0; };
    // The time between two looks at jobs that have ended.
    absl::Duration interval = absl::Seconds(15);
    // Jobs that ended so lately stay, whatever the rules.
    absl::Duration fresh = absl::Hours(1);
    // What the state folder is to keep within, in bytes; 0: nothing.
    int64_t budget_bytes = 0;
    // The rules of users, and who counts what goes; both must outlive the
    // Housekeeping. Null: there are no rules, and nobody counts.
    const jobs::LimitSettings* limits = nullptr;
    prometheus::DaemonMetrics* metrics = nullptr;
    // Gets one line for each thing that was removed or could not be removed.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // What `dependencies` names must outlive the Housekeeping.
  Housekeeping(Options options,
               retention::Collector::Dependencies dependencies);
  ~Housekeeping() { Stop(); }

  // Finds what there is to remove; call it before the first job is submitted or
  // deleted. Removal goes on after Start returns. Start logs whatever it cannot
  // look at and leaves it in place.
  void Start(jobs::JobStore& store);
  jobs::Collector& collector() { return collector_; }
  // Waits for the removal of one job, or of the blobs, in progress.
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
  // Once started, used by the ticker's thread alone.
  std::vector<std::filesystem::path> garbage_;
  absl::Duration next_blobs_;  // monotonic
  Ticker ticker_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_HOUSEKEEPING_H_
