// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DAEMON_H_
#define MPSD_SERVER_DAEMON_H_

#include <spdlog/logger.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/host/host.h"
#include "server/config.h"
#include "server/jobs/job_files.h"
#include "server/jobs/scheduler.h"
#include "server/metrics/exposition.h"
#include "server/metrics/job_metrics.h"
#include "server/rpc/server.h"
#include "server/state_dir.h"
#include "server/store/blob_store.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"
#include "server/supervisor/process_launcher.h"
#include "server/supervisor/tested_launcher.h"
#include "server/ticker.h"

namespace mpsd {

// The whole of mpsd, put together: the only place that sees every room.
//
//   state folder locked -> database, blobs -> jobs recovered -> metrics, API
//   served -> the queue runs -> Drain() -> destroyed
class Daemon {
 public:
  // Returns once the API is served. Unavailable when another mpsd uses the
  // state folder or an address is taken; NotFound for a missing worker.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  // Kills a running worker without a checkpoint, unless drained.
  ~Daemon();

  // Takes no more jobs, lets the running one write a checkpoint and returns it
  // to the queue. Blocks for at most the stop grace, and some seconds.
  void Drain();

  // Where the API and the metrics are served, ports filled in.
  const std::vector<std::string>& addresses() const {
    return server_->addresses();
  }
  std::string metrics_address() const;
  spdlog::logger& log() { return *log_; }

 private:
  explicit Daemon(const Config& config);
  // The steps of Start, in order.
  absl::Status OpenState();
  absl::Status CheckWorker() const;
  absl::Status OpenStores();
  absl::Status StartMetrics();
  void MakeLauncher();
  void MakeScheduler();
  absl::Status StartServer();

  const Config config_;
  const absl::Time start_time_;
  // In the order of their making; each may use those above it.
  std::unique_ptr<StateDir> state_dir_;
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<store::SqliteJobStore> job_store_;
  std::unique_ptr<store::BlobStore> blob_store_;
  std::unique_ptr<jobs::DiskJobFiles> job_files_;
  std::unique_ptr<supervisor::ProcessLauncher> launcher_;
  std::shared_ptr<metrics::JobMetrics> metrics_;
  std::unique_ptr<metrics::Exposition> exposition_;  // null: off
  std::unique_ptr<host::Host> host_;
  Ticker ticker_;
  std::unique_ptr<supervisor::TestedLauncher> tested_;  // null: untested
  std::unique_ptr<jobs::Scheduler> scheduler_;
  std::unique_ptr<rpc::RpcServer> server_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_DAEMON_H_
