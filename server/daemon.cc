// SPDX-License-Identifier: Apache-2.0
#include "server/daemon.h"

#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/host/environment.h"
#include "core/host/file_host.h"
#include "core/host/machine.h"
#include "core/spec/hub_cache.h"
#include "core/wire/messages.h"
#include "server/build_info.h"
#include "server/command_runner.h"
#include "server/config_changes.h"
#include "server/descriptor_limit.h"
#include "server/log.h"

namespace mpsd {
namespace {

// How long calls under way may take when the daemon stops.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);
constexpr int kExitDeaf = 70;  // sysexits.h: EX_SOFTWARE
// The time beside the stop grace for killing a worker and writing the row.
constexpr absl::Duration kDrainMargin = absl::Seconds(5);

// Escapes the line, so that a job's text never begins a line of the log.
std::function<void(const std::string&)> LineTo(
    std::shared_ptr<spdlog::logger> log,
    spdlog::level::level_enum level = spdlog::level::info) {
  return [log = std::move(log), level](const std::string& line) {
    log->log(level, base::Printable(line));
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config) {
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  absl::Status status = daemon->OpenState();
  if (status.ok()) status = daemon->CheckWorker();
  if (status.ok()) status = daemon->OpenStores();
  if (status.ok()) status = daemon->StartMetrics();
  if (!status.ok()) return status;
  daemon->MakeLauncher();
  daemon->MakeScheduler();
  status = daemon->scheduler_->Recover();
  if (!status.ok()) return status;
  daemon->housekeeping_->Start(*daemon->job_store_);
  daemon->StartNotifier();
  status = daemon->StartPage();
  if (status.ok()) status = daemon->StartServer();
  if (!status.ok()) return status;
  // The ticker starts last, so that a daemon that cannot serve starts no
  // worker.
  daemon->ticker_.Start(
      [raw = daemon.get()] { return raw->scheduler_->Tick(); });
  daemon->StartWatchdog();
  daemon->StartDiskWatch();
  daemon->log_->info("mpsd {} serves {}", MPSD_VERSION,
                     daemon->addresses().front());
  return daemon;
}

Daemon::Daemon(const Config& config)
    : config_(config), start_time_(absl::Now()) {}

Daemon::~Daemon() {
  watchdog_.reset();
  if (server_) server_->Shutdown(kShutdownGrace);
  ticker_.Stop();
  // The server calls the scheduler, and a worker's thread pokes the ticker:
  // destroy them in this order, while the ticker object still exists.
  page_.reset();
  server_.reset();
  scheduler_.reset();
  notifier_.reset();
  tested_.reset();
  if (log_) log_->info("mpsd ends");
}

absl::Status Daemon::OpenState() {
  absl::StatusOr<std::unique_ptr<StateDir>> dir =
      StateDir::Open(config_.state_dir);
  if (!dir.ok()) return dir.status();
  state_dir_ = *std::move(dir);
  absl::StatusOr<std::shared_ptr<spdlog::logger>> log = OpenLog(config_);
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  return absl::OkStatus();
}

absl::Status Daemon::CheckWorker() const {
  if (access(config_.worker.c_str(), X_OK) == 0) return absl::OkStatus();
  absl::Status status = base::ErrnoStatus(errno, config_.worker.string());
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; name the worker with --worker"));
}

absl::Status Daemon::OpenStores() {
  daemon_metrics_ =
      std::make_shared<prometheus::DaemonMetrics>(base::Clock::Real());
  absl::StatusOr<std::unique_ptr<store::Database>> database =
      store::Database::Open(
          config_.state_dir / "mpsd.db",
          [metrics = daemon_metrics_](absl::Duration duration) {
            metrics->Committed(duration);
          });
  if (!database.ok()) return database.status();
  database_ = *std::move(database);
  job_store_ = std::make_unique<store::SqliteJobStore>(*database_);
  ended_jobs_ = std::make_unique<store::EndedJobStore>(*database_);
  absl::StatusOr<std::unique_ptr<store::BlobStore>> blobs =
      store::BlobStore::Open(*database_, config_.state_dir / "blobs",
                             config_.min_free_bytes);
  if (!blobs.ok()) return blobs.status();
  blob_store_ = *std::move(blobs);
  job_files_ = std::make_unique<jobs::DiskJobFiles>(config_.state_dir,
                                                    FoldersJobsRead());
  housekeeping_ = std::make_unique<Housekeeping>(
      Housekeeping::Options{config_.state_dir / "jobs", config_.blob_grace,
                            LineTo(log_)},
      *blob_store_);
  return absl::OkStatus();
}

absl::Status Daemon::StartMetrics() {
  prometheus::JobMetrics::Options options;
  options.build_info = BuildInfo();
  options.linger = config_.metrics_linger;
  exported_metrics_ = std::make_shared<prometheus::JobMetrics>(
      std::move(options), base::Clock::Real());
  if (config_.metrics_address.empty()) return absl::OkStatus();
  http::Server::Options serve;
  serve.address = config_.metrics_address;
  if (!config_.metrics_tls_cert.empty()) {
    serve.tls = {config_.metrics_tls_cert, config_.metrics_tls_key};
  }
  serve.token_file = config_.metrics_token_file;
  serve.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  serve.log = LineTo(log_, spdlog::level::warn);
  absl::StatusOr<std::unique_ptr<prometheus::Exposition>> exposition =
      prometheus::Exposition::Start(
          std::move(serve), {{exported_metrics_.get(), daemon_metrics_.get()},
                             exported_metrics_->exemplars()});
  // Jobs matter more than metrics: run even where another mpsd has the metrics
  // port.
  if (absl::IsUnavailable(exposition.status())) {
    log_->warn("metrics are off: {}",
               std::string(exposition.status().message()));
    return absl::OkStatus();
  }
  if (!exposition.ok()) return exposition.status();
  exposition_ = *std::move(exposition);
  return absl::OkStatus();
}

jobs::JobFiles::ReadFolders Daemon::FoldersJobsRead() const {
  jobs::JobFiles::ReadFolders folders{config_.model_roots, config_.data_roots};
  folders.models.push_back(spec::HubCacheFolder());
  return folders;
}

// An input is a symbolic link to its blob where the file system has no hard
// links, so a worker has to read the blob store too.
std::vector<std::string> Daemon::FoldersWorkersRead() const {
  const jobs::JobFiles::ReadFolders folders = FoldersJobsRead();
  std::vector<std::string> roots = {config_.state_dir / "blobs"};
  for (const auto& some : {folders.models, folders.data}) {
    for (const std::filesystem::path& folder : some) {
      if (folder == "/") return {};
      roots.push_back(folder);
    }
  }
  return roots;
}

void Daemon::MakeLauncher() {
  supervisor::ProcessLauncher::Options launch;
  launch.worker_path = config_.worker;
  launch.environment = host::CurrentEnvironment();
  launch.lease_path = config_.state_dir / "worker.lock";
  launch.orphan_patience = config_.stop_grace;
  launch.device_lock = config_.device_lock;
  launch.read_roots = FoldersWorkersRead();
  launch.log = LineTo(log_, spdlog::level::warn);
  launcher_ = std::make_unique<supervisor::ProcessLauncher>(
      std::move(launch), base::Clock::Real());
  if (config_.skip_selftest) return;
  supervisor::TestedLauncher::Options test;
  test.worker_path = config_.worker;
  test.environment = host::WorkerEnvironment(host::CurrentEnvironment(),
                                             /*allow_cpu_fallback=*/false);
  test.verdict_path = config_.state_dir / "selftest.json";
  test.log_path = config_.state_dir / "log" / "selftest.log";
  test.on_change = [this] { ticker_.WakeUp(); };
  test.on_pass = [this](const std::string& device, absl::Time time) {
    daemon_metrics_->SelftestPassed(device, time);
  };
  test.log = LineTo(log_);
  tested_ =
      std::make_unique<supervisor::TestedLauncher>(*launcher_, std::move(test));
}

void Daemon::MakeScheduler() {
  if (config_.host_file.empty()) {
    host_ = host::OpenHost();
  } else {
    host_ = std::make_unique<host::FileHost>(config_.host_file);
  }

  jobs::WorkerLauncher& launcher =
      tested_ ? static_cast<jobs::WorkerLauncher&>(*tested_) : *launcher_;
  jobs::Scheduler::Options options;
  options.hang_timeout = config_.hang_timeout;
  options.stop_grace = config_.stop_grace;
  options.retry = {config_.max_failures, config_.max_interruptions,
                   config_.retry_backoff, config_.retry_backoff_max};
  options.min_free_bytes = config_.min_free_bytes;
  options.machine_bytes = host::PhysicalMemory();
  options.boot_id = host::BootId();
  options.pause = config_.pause;
  options.host_interval = config_.host_interval;
  options.on_change = [this] { ticker_.WakeUp(); };
  options.log = LineTo(log_);
  board_ = std::make_unique<jobs::JobBoard>(*job_store_, *job_files_);
  scheduler_ = std::make_unique<jobs::Scheduler>(
      std::move(options),
      jobs::Scheduler::Dependencies{*job_store_, *blob_store_, *job_files_,
                                    *board_, launcher, *exported_metrics_,
                                    base::Clock::Real(), host_.get()});
}

void Daemon::StartNotifier() {
  notify::Notifier::Options options;
  options.sender = notify::ThisSender();
  options.environment = host::CurrentEnvironment();
  options.run = RunCommand;
  options.job = [this](const std::string& id) { return job_store_->Get(id); };
  options.holds = [this] { return board_->view().holds(); };
  options.free_bytes = [this] { return job_files_->FreeBytes(); };
  options.queue.log = LineTo(log_, spdlog::level::warn);
  options.queue.count = [this](const char* door, notify::Result result) {
    exported_metrics_->Notified(door, report::NameIn(notify::kResults, result));
  };
  notifier_ = std::make_unique<notify::Notifier>(
      std::move(options), config_.notify, *ended_jobs_, base::Clock::Real());
}

absl::Status Daemon::StartPage() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  http::Server::Options serve;
  serve.address = config_.http_listen;
  serve.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  serve.log = LineTo(log_, spdlog::level::warn);
  absl::StatusOr<std::unique_ptr<http::Server>> page =
      http::Server::Open(std::move(serve));
  // Jobs matter more than the page.
  if (absl::IsUnavailable(page.status())) {
    log_->warn("the web page is off: {} (choose another --http-listen)",
               std::string(page.status().message()));
    return absl::OkStatus();
  }
  if (!page.ok()) {
    return absl::Status(
        page.status().code(),
        absl::StrCat("--http-listen: ", page.status().message()));
  }
  page_ = *std::move(page);
  site_ = std::make_unique<web::Site>(*board_, Facts());
  page_->Serve(
      [this](const http::Request& request) { return site_->Answer(request); });
  return absl::OkStatus();
}

rpc::DaemonFacts Daemon::Facts() const {
  rpc::DaemonFacts facts;
  facts.version = MPSD_VERSION;
  facts.state_dir = config_.state_dir;
  facts.metrics_address = metrics_address();
  facts.page_address = page_ ? page_->address() : "";
  facts.metrics_tls = exposition_ && !config_.metrics_tls_cert.empty();
  facts.start_time = start_time_;
  facts.schema_version = job_store_->schema_version();
  facts.protocol_version = wire::kProtocolVersion;
  return facts;
}

absl::Status Daemon::StartServer() {
  rpc::Options options;
  options.addresses = {absl::StrCat("unix:", config_.SocketPath().string())};
  options.addresses.insert(options.addresses.end(), config_.listen.begin(),
                           config_.listen.end());
  options.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  options.log = LineTo(log_, spdlog::level::err);
  options.calls = &daemon_metrics_->rpc();
  server_ = std::make_unique<rpc::RpcServer>(std::move(options), *scheduler_,
                                             *board_, *blob_store_, Facts());
  return server_->Start();
}

void Daemon::StartWatchdog() {
  if (config_.watchdog == absl::ZeroDuration()) return;
  rpc::Watchdog::Options options;
  options.address = server_->addresses().front();
  options.interval = options.patience = config_.watchdog / (2 * options.tries);
  options.deaf = [log = log_](const std::string& why) {
    log->error("{}; mpsd ends, its worker writes a checkpoint", why);
    FlushLog(*log, absl::Seconds(2));
    _exit(kExitDeaf);
  };
  watchdog_ = std::make_unique<rpc::Watchdog>(std::move(options));
}

void Daemon::StartDiskWatch() {
  if (exposition_ == nullptr) return;
  DiskWatch::Options options;
  options.state_dir = config_.state_dir;
  options.log = LineTo(log_, spdlog::level::warn);
  disk_watch_ =
      std::make_unique<DiskWatch>(std::move(options), daemon_metrics_);
}

bool Daemon::Drain() {
  log_->info(
      "stopping: no new jobs, the running one is asked for a checkpoint");
  scheduler_->Drain();
  ticker_.WakeUp();
  return ticker_.Await([this] { return scheduler_->Idle(); },
                       config_.stop_grace + kDrainMargin);
}

void Daemon::Reload(const Config& next) {
  const ConfigChanges changes = CompareConfigs(config_, next);
  config_ = WithLiveKeys(std::move(config_), next);
  log_->set_level(spdlog::level::from_str(config_.log_level));
  scheduler_->SetPausePolicy(config_.pause);
  notifier_->SetSettings(config_.notify);
  if (!changes.restart.empty()) {
    log_->warn("SIGHUP: takes effect when mpsd is restarted: {}",
               absl::StrJoin(changes.restart, ", "));
  }
  log_->warn(
      "SIGHUP: the configuration was read again; new in effect: {}",
      changes.live.empty() ? "nothing" : absl::StrJoin(changes.live, ", "));
}

void Daemon::RenewCredentials() {
  if (!exposition_) return;
  if (const absl::Status read = exposition_->Reload(); !read.ok()) {
    log_->error("SIGHUP: the metrics keep their certificate and token: {}",
                std::string(read.message()));
  }
}

std::string Daemon::metrics_address() const {
  return exposition_ ? exposition_->address() : "";
}

}  // namespace mpsd
