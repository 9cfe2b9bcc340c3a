// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_PROCESS_LAUNCHER_H_
#define MPSD_SERVER_SUPERVISOR_PROCESS_LAUNCHER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/environment.h"
#include "server/jobs/worker_launcher.h"
#include "server/supervisor/device_lock.h"

namespace mpsd::supervisor {

// Starts mpsd-worker as a child process. The child gets these descriptors and
// no others: 0 /dev/null, 1 and 2 the job's log, 3 the stream to the daemon, 4
// the lease, 5 the lock of the GPU if there is one. One thread at a time.
class ProcessLauncher final : public jobs::WorkerLauncher {
 public:
  struct Options {
    std::string worker_path;
    // Without the daemon's secrets (host::WithoutSecrets); the launcher adds
    // what a worker needs (core/host) and TMPDIR.
    host::Environment environment;
    // Contains a folder for each worker's temporary files. For the launcher
    // alone, which empties it.
    std::string temporary_dir;
    std::string lease_path;
    std::string device_lock;  // see DeviceLock
    // Folders below which a worker may read files, in addition to its job's
    // own; empty: any folder.
    std::vector<std::string> read_roots;
    // How long a worker of an earlier daemon may take to write its last
    // checkpoint.
    absl::Duration orphan_patience = absl::Minutes(2);
    absl::Duration exit_grace = absl::Seconds(10);
    // The daemon's own log; gets one line per call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::function<absl::Duration()> awake_time = base::AwakeTime;
  };

  ProcessLauncher(Options options, const base::Clock& clock);

  absl::Status Ready() override;
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest& request,
      jobs::WorkerListener& listener) override;

 private:
  const Options options_;
  WorkerLease lease_;
  DeviceLock device_lock_;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_PROCESS_LAUNCHER_H_
