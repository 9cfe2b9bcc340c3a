// SPDX-License-Identifier: Apache-2.0
#include "server/daemon.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/host/environment.h"
#include "core/host/machine.h"
#include "core/spec/model_folder.h"
#include "core/wire/messages.h"
#include "server/build_info.h"
#include "server/log.h"
#include "server/process.h"

namespace mpsd {
namespace {

// How long calls in progress may take when the daemon stops.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);
// The log warns of a certificate that expires within this time.
constexpr absl::Duration kCertificateWarning = absl::Hours(14 * 24);
constexpr int kExitDeaf = 70;  // sysexits.h: EX_SOFTWARE
// gRPC aborts without the few that it needs.
constexpr int kLeastDescriptors = 64;
// The time in addition to the stop grace to kill a worker and write the row.
constexpr absl::Duration kDrainMargin = absl::Seconds(5);

// A new job waits for the check of its data at most this long: a check of large
// data takes longer, and is abandoned if the device is free before its end.
constexpr absl::Duration kCheckPatience = absl::Seconds(10);

constexpr char kUnknown[] = "unknown";  // BuildInfo's word

// The environment of a worker that trains no job.
host::Environment TestEnvironment(const Config& config) {
  return host::WorkerEnvironment(WorkersEnvironment(config),
                                 /*allow_cpu_fallback=*/false);
}

std::string Known(const std::map<std::string, std::string>& build,
                  const char* what) {
  const auto found = build.find(what);
  return found == build.end() || found->second == kUnknown ? "" : found->second;
}

constexpr size_t kMostFolders = 8;  // of a kind

std::string ValueOf(const host::Environment& environment,
                    const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// The folders that workers read or keep caches in. "/" among the roots names no
// particular volume.
std::vector<doctor::FolderMount> FoldersOf(const Config& config,
                                           const host::Environment& worker) {
  std::string cache = ValueOf(worker, "XDG_CACHE_HOME");
  if (cache.empty()) cache = ValueOf(worker, "HOME") + "/.cache";
  std::vector<doctor::FolderMount> folders = {
      {"cache", cache, std::nullopt},
      {"models", spec::HubCacheFolder(), std::nullopt}};
  const auto add = [&](const char* what, const auto& roots) {
    size_t count = 0;
    for (const std::filesystem::path& root : roots) {
      if (root == "/" || ++count > kMostFolders) continue;
      folders.push_back({what, root.string(), std::nullopt});
    }
  };
  add("models", config.model_roots);
  add("data", config.data_roots);
  return folders;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config) {
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  RETURN_IF_ERROR(daemon->StartParts());
  return daemon;
}

absl::Status Daemon::StartParts() {
  RETURN_IF_ERROR(OpenState());
  RETURN_IF_ERROR(CheckWorker());
  // Before the rows: a daemon that cannot serve must not change those of one
  // that does.
  ASSIGN_OR_RETURN(listener_, rpc::RpcServer::Listen(ServerOptions()));
  RETURN_IF_ERROR(OpenStores());
  RETURN_IF_ERROR(StartMetrics());
  MakeRecords();
  MakeLauncher();
  MakeScheduler();
  MakePlanner();
  MakeHousekeeping();
  MakeExaminer();
  RETURN_IF_ERROR(scheduler_->Recover());
  housekeeping_->Start(*job_store_);
  StartNotifier();
  RETURN_IF_ERROR(StartPage());
  RETURN_IF_ERROR(StartServer());
  // The ticker starts last, so that a daemon that cannot serve starts no
  // worker.
  ticker_.Start([this] {
    if (!state_dir_->IsInPlace()) {
      GiveUp(absl::StrCat("the state folder ", config_.state_dir.string(),
                          " was moved or replaced"));
    }
    return scheduler_->Tick();
  });
  token_ticker_.Start([this] { return tokens_->Tend(); });
  record_ticker_.Start([this] { return records_->Tend(); });
  check_ticker_.Start([this] { return CheckData(); });
  StartWatchdog();
  StartDiskWatch();
  Config served = config_;
  served.listen.assign(addresses().begin() + 1, addresses().end());
  served.metrics_address = metrics_address();
  served.http_listen = page_ ? page_->address() : "";
  log_->info("mpsd {} serves the {}", MPSD_VERSION,
             absl::StrJoin(AddressLines(served), "; the "));
  return absl::OkStatus();
}

Daemon::Daemon(const Config& config)
    : config_(config),
      start_time_(absl::Now()),
      folders_(std::make_shared<jobs::MeasuredFolders>()) {}

Daemon::~Daemon() {
  watchdog_.reset();
  if (server_) server_->Shutdown(kShutdownGrace);
  ticker_.Stop();
  token_ticker_.Stop();
  ending_ = true;
  check_ticker_.Stop();
  // The server and the housekeeping call the scheduler, and a worker's thread
  // pokes the ticker: destroy them in this order, while the ticker still is.
  page_.reset();
  server_.reset();
  housekeeping_.reset();
  planner_.reset();
  puller_.reset();
  scheduler_.reset();
  CloseRecords();
  notifier_.reset();
  tested_.reset();
  if (log_) log_->info("mpsd ends");
}

void Daemon::GiveUp(const std::string& why) const {
  log_->error("{}; mpsd ends, its worker writes a checkpoint", why);
  FlushLog(*log_, absl::Seconds(2));
  _exit(kExitDeaf);
}

absl::Status Daemon::OpenState() {
  if (const int limit = RaiseDescriptorLimit(); limit < kLeastDescriptors) {
    return absl::FailedPreconditionError(
        absl::StrCat("the limit of open files is ", limit, ", mpsd needs ",
                     kLeastDescriptors, ": raise it with ulimit -n 1024"));
  }
  ASSIGN_OR_RETURN(state_dir_, StateDir::Open(config_.state_dir));
  RETURN_IF_ERROR(OpenToGroup());
  ASSIGN_OR_RETURN(log_, OpenLog(config_));
  return absl::OkStatus();
}

// The group can access only the socket: all other files of the state folder are
// the owner's (main.cc sets the umask).
absl::Status Daemon::OpenToGroup() {
  if (config_.socket_group.empty()) return absl::OkStatus();
  const absl::StatusOr<gid_t> group = GroupNamed(config_.socket_group);
  absl::Status opened =
      group.ok() ? LetThrough(config_.state_dir, *group) : group.status();
  if (!opened.ok()) {
    return absl::Status(opened.code(),
                        absl::StrCat("--socket-group: ", opened.message()));
  }
  socket_group_ = *group;
  return absl::OkStatus();
}

absl::Status Daemon::CheckWorker() const {
  if (::access(config_.worker.c_str(), X_OK) == 0) return absl::OkStatus();
  absl::Status status = base::ErrnoStatus(errno, config_.worker.string());
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; name the worker with --worker"));
}

absl::Status Daemon::OpenStores() {
  daemon_metrics_ =
      std::make_shared<prometheus::DaemonMetrics>(base::Clock::Real());
  ASSIGN_OR_RETURN(database_,
                   store::Database::Open(
                       config_.state_dir / "mpsd.db",
                       [metrics = daemon_metrics_](absl::Duration duration) {
                         metrics->Committed(duration);
                       }));
  job_store_ = std::make_unique<jobs::JobStore>(*database_);
  kept_jobs_ = std::make_unique<jobs::KeptJobs>(*database_);
  ended_jobs_ = std::make_unique<jobs::EndedJobs>(*database_);
  past_jobs_ = std::make_unique<jobs::PastJobs>(*database_);
  audit_store_ = std::make_unique<access::AuditStore>(*database_);
  access::AuditTrail::Options audit;
  audit.keep = config_.audit_keep;
  audit.log = LineTo(log_, spdlog::level::err);
  audit_ = std::make_unique<access::AuditTrail>(std::move(audit), *audit_store_,
                                                base::Clock::Real());
  RETURN_IF_ERROR(OpenTokens());
  // Earlier versions kept links to blobs there, which nothing lists now.
  std::error_code ignored;
  std::filesystem::remove_all(config_.state_dir / "files", ignored);
  ASSIGN_OR_RETURN(blob_store_, store::BlobStore::Open(
                                    *database_, config_.state_dir / "blobs",
                                    config_.min_free_bytes));
  RETURN_IF_ERROR(OpenModels());
  job_files_ = std::make_unique<jobs::JobFiles>(
      config_.state_dir, FoldersJobsRead(config_), pushed_models_.get(),
      [this](const std::string& name) {
        return hub::CheckHubId(name).ok() &&
               hub::FindHf(config_.hf_command, host::CurrentEnvironment()).ok();
      });
  ledger_ = std::make_unique<jobs::UserLedger>(
      *database_,
      [folders = folders_](const std::string& id) {
        return folders->BytesOf(id);
      },
      [blobs = blob_store_.get()](const std::string& user) {
        return blobs->KeptBytesOf(user);
      });
  return absl::OkStatus();
}

absl::Status Daemon::OpenModels() {
  ASSIGN_OR_RETURN(pushed_models_, models::PushedModels::Open(
                                       config_.state_dir / "models",
                                       LineTo(log_, spdlog::level::warn)));
  models::SweepHubModels();
  model_uses_ = std::make_unique<models::ModelUses>(*database_);
  pull_ledger_ = std::make_unique<models::PullLedger>(*database_);
  hub::Puller::Options options;
  options.command = config_.hf_command;
  options.environment = host::CurrentEnvironment();
  options.cache = spec::HubCacheFolder();
  options.min_free_bytes = config_.min_free_bytes;
  options.log = LineTo(log_);
  options.count = [this](hub::PullEnd end) {
    daemon_metrics_->PullEnded(report::NameIn(hub::kPullEnds, end));
  };
  options.running = [this](int pulls) { daemon_metrics_->PullsRun(pulls); };
  options.received = [this](int64_t bytes) {
    daemon_metrics_->PullReceived(bytes);
  };
  puller_ = std::make_unique<hub::Puller>(std::move(options), *pull_ledger_,
                                          ledger_.get());
  model_book_ = std::make_unique<models::ModelBook>(
      *pushed_models_, *model_uses_, puller_.get(), pull_ledger_.get());
  return absl::OkStatus();
}

absl::Status Daemon::OpenTokens() {
  token_store_ = std::make_unique<access::Tokens>(*database_);
  access::TokenBook::Options options = access::TokenBook::SystemOptions();
  options.end_streams = [this](const std::string& credential) {
    return server_->EndStreams(credential);
  };
  options.on_change = [this] { token_ticker_.WakeUp(); };
  options.log = LineTo(log_, spdlog::level::warn);
  ASSIGN_OR_RETURN(tokens_,
                   access::TokenBook::Open(*token_store_, base::Clock::Real(),
                                           std::move(options)));
  return absl::OkStatus();
}

absl::Status Daemon::StartMetrics() {
  prometheus::JobMetrics::Options options;
  options.build_info = BuildInfo();
  options.private_jobs = config_.private_jobs;
  options.linger = config_.metrics_linger;
  exported_metrics_ = std::make_shared<prometheus::JobMetrics>(
      std::move(options), base::Clock::Real());
  if (config_.metrics_address.empty()) return absl::OkStatus();
  http::Server::Options serve = HttpOptions(config_.metrics_address);
  if (!config_.metrics_tls_cert.empty()) {
    serve.tls = {config_.metrics_tls_cert, config_.metrics_tls_key};
  }
  serve.token_file = config_.metrics_token_file;
  absl::StatusOr<std::unique_ptr<prometheus::Exposition>> exposition =
      prometheus::Exposition::Start(
          std::move(serve), {exported_metrics_.get(), daemon_metrics_.get()});
  // Jobs matter more than metrics: run even if another mpsd has the metrics
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

void Daemon::MakeRecords() {
  const std::map<std::string, std::string> build = BuildInfo();
  records::RunWatch::Options watch;
  watch.torch_version = Known(build, "torch");
  watch.version = MPSD_VERSION;
  watch.commit = Known(build, "commit");
  watch.on_end = [this] { record_ticker_.WakeUp(); };
  run_watch_ = std::make_unique<records::RunWatch>(
      std::move(watch), *exported_metrics_, base::Clock::Real());
  records::JobRecords::Options options;
  options.log = LineTo(log_, spdlog::level::warn);
  records_ = std::make_unique<records::JobRecords>(
      std::move(options),
      records::JobRecords::Dependencies{*past_jobs_, *job_store_, *job_files_,
                                        *run_watch_, base::Clock::Real()});
}

void Daemon::CloseRecords() {
  record_ticker_.Stop();
  // The attempt that a stop of mpsd ended.
  if (records_) records_->Tend();
}

void Daemon::MakeLauncher() {
  supervisor::ProcessLauncher::Options launch;
  launch.worker_path = config_.worker;
  launch.environment = WorkersEnvironment(config_);
  launch.temporary_dir = config_.state_dir / "tmp";
  launch.lease_path = config_.state_dir / "worker.lock";
  launch.orphan_patience = config_.stop_grace;
  launch.device_lock = config_.device_lock;
  launch.read_roots = FoldersWorkersRead(config_);
  launch.closed_roots = {std::filesystem::absolute(config_.state_dir).string()};
  launch.log = LineTo(log_, spdlog::level::warn);
  launcher_ = std::make_unique<supervisor::ProcessLauncher>(
      std::move(launch), base::Clock::Real());
  if (config_.skip_selftest) return;
  supervisor::TestedLauncher::Options test;
  test.worker_path = config_.worker;
  test.environment = TestEnvironment(config_);
  test.temporary_dir = config_.state_dir / "tmp";
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
  options.machine_bytes = host::PhysicalMemoryBytes();
  options.boot_id = host::BootId();
  options.pause = config_.pause;
  options.host_interval = config_.host_interval;
  options.check_patience = kCheckPatience;
  options.on_change = [this] {
    ticker_.WakeUp();
    check_ticker_.WakeUp();
  };
  options.give_up = [this](const std::string& why) { GiveUp(why); };
  options.log = LineTo(log_);
  options.half_life = config_.fair_share_half_life;
  options.preemption = config_.preemption;
  options.time_limit = [this](const std::string& owner) {
    return config_.user_limits.Of(owner).job_time.value_or(
        absl::InfiniteDuration());
  };
  board_ = std::make_unique<jobs::JobReader>(*job_store_, *job_files_);
  scheduler_ = std::make_unique<jobs::Scheduler>(
      std::move(options),
      jobs::Scheduler::Dependencies{
          *job_store_, *blob_store_, *job_files_, *board_, launcher,
          *run_watch_, base::Clock::Real(), host_.get(), ledger_.get(),
          kept_jobs_.get(), folders_.get(),
          [this](const std::string& id) { return records_->Keep(id); }});
}

void Daemon::MakePlanner() {
  planner::PlanMaker::Options options;
  options.worker_path = config_.worker;
  options.environment = TestEnvironment(config_);
  options.plans_dir = config_.state_dir / "plans";
  options.merges_dir = config_.state_dir / "merges";
  options.read_roots = FoldersWorkersRead(config_);
  options.closed_roots = {
      std::filesystem::absolute(config_.state_dir).string()};
  options.chip = host::ProcessorName();
  options.gpu_cores = static_cast<int>(host::GpuCores().value_or(0));
  options.cpu_cores = static_cast<int>(host::CountCores().all);
  options.machine_bytes = host::PhysicalMemoryBytes();
  options.min_free_bytes = config_.min_free_bytes;
  planner_ = std::make_unique<planner::PlanMaker>(
      std::move(options),
      planner::PlanMaker::Dependencies{*board_, *job_files_, *blob_store_,
                                       base::Clock::Real()});
}

absl::Time Daemon::CheckData() {
  jobs::QueueView& view = board_->view();
  const std::optional<std::string> id = view.NextToCheck();
  if (!id || ending_) return absl::InfiniteFuture();
  scheduler_->DataChecked(*id, planner_->Check(*id, [&] {
    return ending_ || !view.AwaitsCheck(*id)
               ? absl::CancelledError("the job has started or ended")
               : absl::OkStatus();
  }));
  return absl::InfinitePast();
}

void Daemon::MakeHousekeeping() {
  Housekeeping::Options options{config_.state_dir / "jobs", config_.blob_grace};
  options.budget_bytes = config_.state_budget;
  options.limits = &config_.user_limits;
  options.metrics = daemon_metrics_.get();
  options.sweep_models = [this] {
    planner_->Sweep();
    return model_book_->Sweep();
  };
  options.log = LineTo(log_);
  unused_blobs_ = std::make_unique<jobs::UnusedBlobs>(
      *blob_store_, options.jobs_dir, options.blob_grace);
  housekeeping_ = std::make_unique<Housekeeping>(
      std::move(options),
      jobs::Collector::Dependencies{
          *kept_jobs_,
          [this](const std::string& id, absl::Time ended) {
            return scheduler_->remover().RemoveJob(id, ended);
          },
          [this](const std::string& id, absl::Time ended) {
            return scheduler_->remover().RemoveCheckpoints(id, ended);
          },
          *unused_blobs_, *folders_, base::Clock::Real()});
}

void Daemon::MakeExaminer() {
  doctor::MachineExaminer::Options options;
  options.mpsd_version = MPSD_VERSION;
  options.protocol_version = wire::kProtocolVersion;
  options.state_dir = config_.state_dir;
  options.verdict_path = config_.state_dir / "selftest.json";
  options.min_free_bytes = config_.min_free_bytes;
  options.stop_grace = config_.stop_grace;
  options.gates.worker_path = config_.worker;
  options.gates.environment = TestEnvironment(config_);
  options.gates.temporary_dir = config_.state_dir / "tmp";
  options.folders = FoldersOf(config_, options.gates.environment);
  options.daemon_environment = host::CurrentEnvironment();
  options.configured = config_.environment;
  options.places.home = ValueOf(options.daemon_environment, "HOME");
  options.places.launchd = !host::MacosVersion().empty();
  options.queue = [this] { return board_->Info(); };
  options.tested = tested_.get();
  examiner_ = std::make_unique<doctor::MachineExaminer>(std::move(options),
                                                        base::Clock::Real());
}

void Daemon::StartNotifier() {
  notify::Notifier::Options options;
  options.sender = notify::ThisSender();
  options.environment = host::CurrentEnvironment();
  options.job = [this](const std::string& id) { return job_store_->Get(id); };
  options.log = LineTo(log_, spdlog::level::warn);
  options.count = [this](notify::Result result) {
    exported_metrics_->Notified(report::NameIn(notify::kResults, result));
  };
  notifier_ = std::make_unique<notify::Notifier>(
      std::move(options), config_.notify, *ended_jobs_, base::Clock::Real());
}

http::Server::Options Daemon::HttpOptions(const std::string& address) const {
  http::Server::Options options;
  options.address = address;
  options.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  options.log = LineTo(log_, spdlog::level::warn);
  return options;
}

absl::Status Daemon::StartPage() {
  if (config_.http_listen.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<http::Server>> page =
      http::Server::Open(HttpOptions(config_.http_listen));
  // Jobs matter more than the page, too.
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
  site_ = std::make_unique<web::Site>(*board_, Facts(), config_.private_jobs);
  page_->Serve(
      [this](const http::Request& request) { return site_->Answer(request); });
  return absl::OkStatus();
}

rpc::DaemonFacts Daemon::Facts() const {
  rpc::DaemonFacts facts;
  facts.version = MPSD_VERSION;
  facts.state_dir = config_.state_dir;
  if (listener_) facts.api_addresses = listener_->addresses();
  facts.api_tls = !config_.tls_cert.empty();
  facts.metrics_address = metrics_address();
  facts.page_address = page_ ? page_->address() : "";
  facts.metrics_tls = exposition_ && !config_.metrics_tls_cert.empty();
  facts.start_time = start_time_;
  facts.schema_version = database_->schema_version();
  facts.protocol_version = wire::kProtocolVersion;
  facts.tested_device = [this]() -> std::string {
    if (!tested_ || !tested_->state().verdict.ok()) return "";
    const auto verdict =
        supervisor::ReadVerdict(config_.state_dir / "selftest.json");
    // A worker without an accelerator passes and writes no verdict.
    return verdict && verdict->passed.value_or(false) ? verdict->device : "cpu";
  };
  return facts;
}

rpc::Options Daemon::ServerOptions() const {
  rpc::Options options;
  options.addresses = {absl::StrCat("unix:", config_.SocketPath().string())};
  options.addresses.insert(options.addresses.end(), config_.listen.begin(),
                           config_.listen.end());
  options.max_descriptor = FirstReservedDescriptor(RaiseDescriptorLimit());
  options.log = LineTo(log_, spdlog::level::err);
  options.socket_group = socket_group_;
  if (!config_.tls_cert.empty()) {
    options.tls = {{config_.tls_cert, config_.tls_key},
                   config_.state_dir / "served"};
  }
  return options;
}

absl::Status Daemon::StartServer() {
  rpc::Options options = ServerOptions();
  options.calls = &daemon_metrics_->rpc();
  options.audit = audit_.get();
  options.private_jobs = config_.private_jobs;
  options.audit_entries = audit_store_.get();
  options.tokens = tokens_.get();
  options.callers.tokens = tokens_.get();
  options.callers.roles.admins = config_.admins;
  options.callers.roles.viewers = config_.viewers;
  options.models = model_book_.get();
  options.ledger = ledger_.get();
  options.puller = puller_.get();
  options.limits = &config_.user_limits;
  options.planner = planner_.get();
  options.collector = &housekeeping_->collector();
  options.records = records_.get();
  options.examiner = examiner_.get();
  server_ = std::make_unique<rpc::RpcServer>(std::move(options), *scheduler_,
                                             *board_, *blob_store_, Facts());
  RETURN_IF_ERROR(server_->Start(std::move(listener_)));
  TellCertificate();
  return absl::OkStatus();
}

void Daemon::TellCertificate() {
  const std::optional<absl::Time> expiry = server_->certificate_expiry();
  if (!expiry) return;
  daemon_metrics_->CertificateEnds(*expiry);
  if (*expiry > absl::Now() + kCertificateWarning) return;
  log_->warn(
      "{}: the certificate {} on {}; mpsd tls renew, or put a new one "
      "in its place, then SIGHUP",
      config_.tls_cert.string(), *expiry < absl::Now() ? "ended" : "ends",
      absl::FormatTime("%F", *expiry, absl::UTCTimeZone()));
}

void Daemon::StartWatchdog() {
  if (config_.watchdog == absl::ZeroDuration()) return;
  rpc::Watchdog::Options options;
  options.address = server_->addresses().front();
  options.interval = options.patience = config_.watchdog / (2 * options.tries);
  options.deaf = [this](const std::string& why) { GiveUp(why); };
  watchdog_ = std::make_unique<rpc::Watchdog>(std::move(options));
}

void Daemon::StartDiskWatch() {
  DiskWatch::Options options;
  options.state_dir = config_.state_dir;
  options.folders = folders_;
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

void Daemon::Reload() {
  if (const absl::Status opened = ReopenLog(*log_, config_); !opened.ok()) {
    log_->error("SIGHUP: {}", std::string(opened.message()));
  }
  if (const absl::Status read = server_->RenewTls(); !read.ok()) {
    log_->error("SIGHUP: the API keeps its certificate: {}",
                std::string(read.message()));
  }
  TellCertificate();
  if (exposition_) {
    if (const absl::Status read = exposition_->Reload(); !read.ok()) {
      log_->error("SIGHUP: the metrics keep their certificate and token: {}",
                  std::string(read.message()));
    }
  }
  log_->info(
      "SIGHUP: certificates and tokens were read again, the log was opened "
      "again");
}

std::string Daemon::metrics_address() const {
  return exposition_ ? exposition_->address() : "";
}

}  // namespace mpsd
