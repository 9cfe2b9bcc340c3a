// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/host/host.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/config.h"
#include "server/housekeeping.h"
#include "server/http/daemon_metrics.h"
#include "server/http/job_metrics.h"
#include "server/http/server.h"
#include "server/http/site.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/user_limits.h"
#include "server/models/model_book.h"
#include "server/models/puller.h"
#include "server/models/pushed_models.h"
#include "server/notify/notifier.h"
#include "server/planner/examiner.h"
#include "server/planner/plan_maker.h"
#include "server/rpc/records.h"
#include "server/rpc/server.h"
#include "server/state_dir.h"
#include "server/store/blob_store.h"
#include "server/store/database.h"
#include "server/store/ended_jobs.h"
#include "server/store/job_store.h"
#include "server/store/token_store.h"
#include "server/store/user_ledger.h"
#include "server/supervisor/process_launcher.h"

namespace mpsd {

// Creates and connects every part of mpsd; no other class sees every room.
//
//   state folder locked -> addresses taken -> database, blobs -> metrics ->
//   jobs recovered -> API served -> the queue runs -> Drain() -> destroyed
class Daemon {
 public:
  // Returns once the API is served. Unavailable if another mpsd uses the state
  // folder or an address of the API is taken; NotFound for a missing worker. If
  // the metrics' address is taken, they are off, and the log says so.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  // Kills a running worker without a checkpoint, unless drained.
  ~Daemon();

  // Accepts no more jobs, has the running job write a checkpoint and returns
  // that job to the queue. Blocks for at most the stop grace and some seconds.
  // False if the queue could not be written by then: threads may hang in the
  // disk, so the process must exit at once, and the next daemon takes over the
  // row.
  bool Drain();

  // Opens the log file again, and reloads the certificates and keys of the API
  // and of the metrics, and the metrics' token. If one of the API's cannot be
  // read, the API keeps its old ones, and likewise the metrics; the log says
  // so. One thread at a time.
  void Reload();

  // The addresses that serve the API and the metrics, with the real port for
  // port 0.
  const std::vector<std::string>& addresses() const {
    return server_->addresses();
  }
  std::string metrics_address() const;
  spdlog::logger& log() { return *log_; }

 private:
  explicit Daemon(const Config& config);
  // Takes the steps below, in their order.
  absl::Status StartParts();
  absl::Status OpenState();
  absl::Status OpenToGroup();
  absl::Status CheckWorker() const;
  absl::Status OpenStores();
  absl::Status OpenTokens();
  absl::Status OpenModels();
  absl::Status StartMetrics();
  void MakeRecords();
  // Stores the observations of attempts, and ends the thread that does.
  void CloseRecords();
  void MakeLauncher();
  void MakeScheduler();
  void MakePlanner();
  // Checks the data of one queued job; returns when to look for the next.
  absl::Time CheckData();
  void MakeHousekeeping();
  void MakeExaminer();
  absl::Status StartPage();
  http::Server::Options HttpOptions(const std::string& address) const;
  rpc::DaemonFacts Facts() const;
  void StartNotifier();
  rpc::Options ServerOptions() const;  // of the addresses
  absl::Status StartServer();
  // Exports when the ports' certificate expires, and warns if that is soon.
  void TellCertificate();
  // Ends the process at once, so that the service starts another.
  void GiveUp(const std::string& why) const;
  void StartWatchdog();
  void StartDiskWatch();

  const Config config_;
  const absl::Time start_time_;
  std::optional<gid_t> socket_group_;
  // Members are created in this order; each may use those above it.
  std::unique_ptr<StateDir> state_dir_;
  std::shared_ptr<spdlog::logger> log_;
  std::unique_ptr<listener::Listener> listener_;  // until the server has it
  std::shared_ptr<prometheus::DaemonMetrics> daemon_metrics_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<jobs::JobStore> job_store_;
  std::unique_ptr<jobs::KeptJobs> kept_jobs_;
  std::unique_ptr<jobs::EndedJobs> ended_jobs_;
  std::unique_ptr<jobs::PastJobs> past_jobs_;
  std::unique_ptr<access::AuditStore> audit_store_;
  std::unique_ptr<access::AuditTrail> audit_;
  std::unique_ptr<access::Tokens> token_store_;
  std::unique_ptr<access::TokenBook> tokens_;
  std::unique_ptr<store::BlobStore> blob_store_;
  std::shared_ptr<jobs::MeasuredFolders> folders_;  // a thread may outlive us
  std::unique_ptr<jobs::UserLedger> ledger_;
  std::unique_ptr<models::PushedModels> pushed_models_;
  std::unique_ptr<models::ModelUses> model_uses_;
  std::unique_ptr<models::PullLedger> pull_ledger_;
  std::unique_ptr<hub::Puller> puller_;
  std::unique_ptr<models::ModelBook> model_book_;
  std::unique_ptr<jobs::JobFiles> job_files_;
  std::unique_ptr<supervisor::ProcessLauncher> launcher_;
  std::shared_ptr<prometheus::JobMetrics> exported_metrics_;
  std::unique_ptr<prometheus::Exposition> exposition_;  // null: off
  std::unique_ptr<records::RunWatch> run_watch_;
  std::unique_ptr<records::JobRecords> records_;
  std::unique_ptr<host::Host> host_;
  Ticker ticker_;
  Ticker token_ticker_;
  Ticker record_ticker_;
  Ticker check_ticker_;
  std::atomic<bool> ending_ = false;  // ends a check in progress
  std::unique_ptr<supervisor::TestedLauncher> tested_;  // null: untested
  std::unique_ptr<jobs::JobReader> board_;
  std::unique_ptr<jobs::Scheduler> scheduler_;
  std::unique_ptr<planner::PlanMaker> planner_;
  std::unique_ptr<doctor::MachineExaminer> examiner_;
  std::unique_ptr<jobs::UnusedBlobs> unused_blobs_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<notify::Notifier> notifier_;
  std::unique_ptr<web::Site> site_;
  std::unique_ptr<http::Server> page_;  // null: off
  std::unique_ptr<rpc::RpcServer> server_;
  std::unique_ptr<rpc::Watchdog> watchdog_;  // null: none
  std::unique_ptr<DiskWatch> disk_watch_;
};

}  // namespace mpsd
