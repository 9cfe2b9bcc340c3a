// SPDX-License-Identifier: Apache-2.0
#include "tests/server/in_process_daemon.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd {
inline namespace testing_support {
namespace {

constexpr char kTinyConfig[] =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "hidden_act": "silu"})";

// gRPC stays up between tests: the end of its last user may wait for ten
// seconds.
const bool kGrpcIsUp = (grpc_init(), true);

fs::path NewFolder() {
  static std::atomic<int> count{0};
  return FreshFolder(absl::StrCat("d", ++count));
}

// A database with every migration, which is copied: making one takes longer
// than most tests.
const fs::path& EmptyDatabase() {
  static const fs::path path = [] {
    const fs::path made = FreshFolder("empty") / "mpsd.db";
    EXPECT_THAT(store::Database::Open(made), IsOk());
    return made;
  }();
  return path;
}

rpc::DaemonFacts FactsOf(const fs::path& folder, int64_t schema_version,
                         absl::Time now) {
  rpc::DaemonFacts facts;
  facts.version = "0.1.0";
  facts.state_dir = folder.string();
  facts.metrics_address = "127.0.0.1:9464";
  facts.metrics_tls = true;
  facts.page_address = "127.0.0.1:9465";
  facts.start_time = now;
  facts.schema_version = schema_version;
  facts.protocol_version = 1;
  return facts;
}

// With connections of its own: a daemon before may have had the same address.
std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

absl::Status ToStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

void Api::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
}

InProcessDaemon::InProcessDaemon(Options options)
    : folder(NewFolder()),
      folders(std::make_shared<jobs::MeasuredFolders>()),
      options_(std::move(options)) {
  // No test sees the models of the account that runs it. Set once: threads of
  // gRPC read the environment.
  static const int hidden = setenv("HF_HUB_CACHE", "/nonexistent/hub", 1);
  EXPECT_EQ(hidden, 0);
  Write(model() / "config.json", kTinyConfig);
  fs::create_directories(folder / "jobs");
  Write(data(), "{\"text\": \"hello\"}\n");
  options_.prepare(folder);
  OpenStores();
  OpenModels();
  MakeScheduler();
  EXPECT_THAT(scheduler->Recover(), IsOk());
  Serve();
}

InProcessDaemon::~InProcessDaemon() {
  StopServing();
  scheduler.reset();
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void InProcessDaemon::OpenStores() {
  fs::copy_file(EmptyDatabase(), folder / "mpsd.db");
  database = Ok(store::Database::Open(folder / "mpsd.db"));
  {
    // No power cut is tested here.
    store::Connection& writer = database->writer();
    absl::MutexLock lock(&writer.mutex());
    writer.SetDurability(store::Connection::Durability::kPowerCut);
    writer.database().exec("PRAGMA synchronous=OFF");
  }
  job_store = std::make_unique<jobs::JobStore>(*database);
  kept = std::make_unique<jobs::KeptJobs>(*database);
  past = std::make_unique<jobs::PastJobs>(*database);
  audit_store = std::make_unique<access::AuditStore>(*database);
  access::AuditTrail::Options audited;
  audited.refusals_a_minute = 1'000'000;
  audit = std::make_unique<access::AuditTrail>(std::move(audited), *audit_store,
                                               clock);
  token_store = std::make_unique<access::Tokens>(*database);
  access::TokenBook::Options book = access::TokenBook::SystemOptions();
  book.end_streams = [this](const std::string& credential) {
    return server->EndStreams(credential);
  };
  tokens = Ok(access::TokenBook::Open(*token_store, clock, std::move(book)));
  blobs = Ok(store::BlobStore::Open(*database, folder / "blobs"));
  ledger = std::make_unique<jobs::UserLedger>(
      *database, [this](const std::string& id) { return folders->BytesOf(id); },
      [this](const std::string& user) { return blobs->KeptBytesOf(user); });
}

void InProcessDaemon::OpenModels() {
  pushed_models = Ok(models::PushedModels::Open(
      folder / "models", [this](const std::string& line) { Log(line); }));
  model_uses = std::make_unique<models::ModelUses>(*database);
  pull_ledger = std::make_unique<models::PullLedger>(*database);
  model_book = std::make_unique<models::ModelBook>(*pushed_models, *model_uses,
                                                   &puller, pull_ledger.get());
  files = std::make_unique<jobs::JobFiles>(
      folder,
      jobs::JobFiles::ReadFolders{{folder / "given"}, {folder / "given"}},
      pushed_models.get());
}

void InProcessDaemon::MakeScheduler() {
  run_watch = std::make_unique<records::RunWatch>(records::RunWatch::Options(),
                                                  metrics, clock);
  job_records = std::make_unique<records::JobRecords>(
      records::JobRecords::Options(),
      records::JobRecords::Dependencies{*past, *job_store, *files, *run_watch,
                                        clock});
  board = std::make_unique<jobs::JobReader>(*job_store, *files, clock);
  jobs::Scheduler::Options made = options_.scheduler;
  made.progress_interval = absl::ZeroDuration();
  made.awake_time = [this] { return clock.Monotonic(); };
  made.log = [this](const std::string& line) { Log(line); };
  made.time_limit = [this](const std::string& owner) {
    return options_.limits.Of(owner).job_time.value_or(
        absl::InfiniteDuration());
  };
  scheduler = std::make_unique<jobs::Scheduler>(
      std::move(made),
      jobs::Scheduler::Dependencies{
          *job_store, *blobs, *files, *board, launcher, *run_watch, clock,
          &machine, ledger.get(), kept.get(), folders.get(),
          [this](const std::string& id) { return job_records->Keep(id); }});
  unused_blobs = std::make_unique<jobs::UnusedBlobs>(*blobs, folder / "jobs",
                                                     absl::ZeroDuration());
  jobs::Collector::Options rules;
  rules.fresh = absl::ZeroDuration();
  rules.rules = [this](const std::string& owner) {
    return options_.limits.Of(owner).keep;
  };
  collector = std::make_unique<jobs::Collector>(
      std::move(rules), jobs::Collector::Dependencies{
                            *kept,
                            [this](const std::string& id, absl::Time ended) {
                              return scheduler->remover().RemoveJob(id, ended);
                            },
                            [this](const std::string& id, absl::Time ended) {
                              return scheduler->remover().RemoveCheckpoints(
                                  id, ended);
                            },
                            *unused_blobs, *folders, clock});
  collector->SetBudget(options_.budget_bytes);
}

rpc::Options InProcessDaemon::ServerOptions() {
  rpc::Options made;
  made.addresses = {socket_address(), port_};
  made.callers.tokens = tokens.get();
  made.log = [this](const std::string& line) { Log(line); };
  made.log_poll_interval = absl::Milliseconds(5);
  made.calls = &calls;
  made.audit = audit.get();
  made.private_jobs = options_.private_jobs;
  made.audit_entries = audit_store.get();
  made.tokens = tokens.get();
  made.models = model_book.get();
  made.ledger = ledger.get();
  made.puller = &puller;
  made.limits = &options_.limits;
  made.planner = &planner;
  made.collector = collector.get();
  made.records = job_records.get();
  made.examiner = &examiner;
  options_.rpc(made);
  return made;
}

void InProcessDaemon::Serve() {
  server = std::make_unique<rpc::RpcServer>(
      ServerOptions(), *scheduler, *board, *blobs,
      FactsOf(folder, database->schema_version(), clock.Now()));
  EXPECT_THAT(server->Start(), IsOk());
  if (server->addresses().size() > 1) {
    port_ = server->addresses()[1];
    port_channel_ = Connect(port_);
  }
  admin_.emplace(Connect(socket_address()));
}

void InProcessDaemon::StopServing() {
  if (server) server->Shutdown(absl::ZeroDuration());
  server.reset();
}

access::NewToken InProcessDaemon::MakeToken(const std::string& user,
                                            access::Role role) {
  return Ok(tokens->Create({user, role, "", std::nullopt, "root"}));
}

Api InProcessDaemon::As(const std::string& user, access::Role role) {
  return Api(port_channel_, MakeToken(user, role).secret);
}

std::string InProcessDaemon::Spec(const std::string& name,
                                  const std::string& more) const {
  return absl::StrCat(
      "{", name.empty() ? "" : absl::StrCat(R"("name": ")", name, R"(", )"),
      R"("model": ")", model().string(), R"(", "dataset": {"train": ")",
      data().string(), "\"}", more, "}");
}

std::string InProcessDaemon::Enqueue(const jobs::SubmitRequest& request) {
  const jobs::SubmitResult result = Ok(scheduler->Submit(request));
  clock.Advance(absl::Milliseconds(1));
  return result.job.id;
}

std::string InProcessDaemon::Submit(const Order& order) {
  jobs::SubmitRequest request;
  request.spec_json = Spec(order.name);
  request.owner = order.owner;
  request.priority = order.priority;
  request.kind = order.kind;
  if (order.kind != jobs::JobKind::kTraining) request.study_json = "{}";
  request.after = order.after;
  request.held = order.held;
  request.labels = order.labels;
  return Enqueue(request);
}

std::string InProcessDaemon::Start(const Order& order) {
  std::string id = Submit(order);
  Tick();
  EXPECT_EQ(Running(), id);
  return id;
}

std::string InProcessDaemon::Ended(const Order& order,
                                   jobs::ExitReason reason) {
  std::string id = Start(order);
  End(reason);
  return id;
}

jobs::Job InProcessDaemon::MakeJob(int number, jobs::State state,
                                   const std::string& owner) {
  jobs::Job job;
  job.id = absl::StrFormat("01J%023d", number);
  job.name = absl::StrCat("job ", number);
  job.state = state;
  job.owner = owner;
  job.create_time = absl::FromUnixSeconds(1'700'000'000 + number);
  if (jobs::IsFinal(state)) job.end_time = job.create_time + absl::Seconds(9);
  job.spec_json = R"({"model": "m"})";
  job.request_hash = job.id;
  return job;
}

void InProcessDaemon::Put(const jobs::Job& job,
                          const std::vector<jobs::Event>& events) {
  EXPECT_THAT(
      job_store->Insert(job, {job.id, 1, job.create_time,
                              jobs::StateChanged{job.state, job.message}}),
      IsOk());
  if (!events.empty()) {
    EXPECT_THAT(job_store->Update(job, events), IsOk());
  }
  for (const jobs::Event& event : events) {
    if (const auto* made = std::get_if<jobs::Checkpoint>(&event.body)) {
      EXPECT_THAT(job_store->AddCheckpoint(job.id, *made), IsOk());
    }
  }
  EXPECT_THAT(kept->SetPinned(job.id, job.pinned), IsOk());
}

void InProcessDaemon::Delete(const std::string& id) {
  EXPECT_THAT(scheduler->remover().Delete(id), IsOk());
}

void InProcessDaemon::Step(int64_t step, int64_t total_steps) {
  jobs::Progress progress;
  progress.step = step;
  progress.total_steps = total_steps;
  progress.loss = 2.5;
  progress.tokens = 50;
  progress.seconds = 0.5;
  progress.device = "mps";
  clock.Advance(absl::Milliseconds(500));
  worker().OnProgress(progress);
}

void InProcessDaemon::Checkpoint(int64_t step) {
  const fs::path path =
      RunFolder(Running()) / absl::StrCat("checkpoint-", step);
  Write(path / "adapter.safetensors", "weights");
  worker().OnCheckpoint({step, path.string(), 7, 0.25, {}});
}

void InProcessDaemon::End(jobs::ExitReason reason, const std::string& message) {
  jobs::WorkerListener::Result result;
  result.reason = reason;
  result.message = message;
  if (reason == jobs::ExitReason::kDone) {
    const fs::path adapter = RunFolder(Running()) / "adapter";
    Write(adapter / "adapter_config.json", "{}");
    result.outcome.output_path = adapter.string();
    result.outcome.train_loss = 1.5;
    result.outcome.eval_loss_after = 0.5;
  }
  launcher.Exit(result);
  Tick();
}

void InProcessDaemon::Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string InProcessDaemon::PutBlob(const std::string& bytes,
                                     const std::string& user) {
  const std::string sha256 = base::Sha256Hex(bytes);
  const std::unique_ptr<store::BlobBatch> batch = blobs->BeginBatch();
  EXPECT_THAT(batch->Add(sha256, bytes), IsOk());
  EXPECT_THAT(batch->Commit(), IsOk());
  EXPECT_THAT(ledger->Use(user, {}, {sha256}), IsOk());
  return sha256;
}

std::vector<access::AuditEntry> InProcessDaemon::TakeAudit() {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  std::vector<access::AuditEntry> entries;
  do {
    audit->Flush();
    access::AuditFilter all;
    all.limit = 1'000;
    entries = Ok(audit_store->List(all));
    std::erase_if(entries, [&](const access::AuditEntry& entry) {
      return entry.number <= audited_;
    });
  } while (absl::Now() < end &&
           std::any_of(entries.begin(), entries.end(),
                       [](const auto& entry) { return !entry.result; }));
  if (!entries.empty()) audited_ = entries.front().number;
  std::reverse(entries.begin(), entries.end());
  return entries;
}

std::string InProcessDaemon::log() const {
  absl::MutexLock lock(&log_mutex_);
  return log_;
}

void InProcessDaemon::Log(const std::string& line) {
  absl::MutexLock lock(&log_mutex_);
  absl::StrAppend(&log_, line, "\n");
}

void InProcessDaemon::Execute(const std::string& sql) {
  store::Connection& writer = database->writer();
  absl::MutexLock lock(&writer.mutex());
  writer.database().exec(sql);
}

}  // namespace testing_support
}  // namespace mpsd
