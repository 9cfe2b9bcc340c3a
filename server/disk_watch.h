// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DISK_WATCH_H_
#define MPSD_SERVER_DISK_WATCH_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/collector.h"
#include "server/http/daemon_metrics.h"
#include "server/state_usage.h"
#include "server/ticker.h"

namespace mpsd {

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

#endif  // MPSD_SERVER_DISK_WATCH_H_
