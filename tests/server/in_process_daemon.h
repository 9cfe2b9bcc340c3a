// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/scheduler.h"
#include "server/models/model_book.h"
#include "server/rpc/records.h"
#include "server/rpc/server.h"
#include "server/store/blob_store.h"
#include "server/store/database.h"
#include "server/store/ended_jobs.h"
#include "server/store/job_store.h"
#include "server/store/token_store.h"
#include "server/store/user_ledger.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_host.h"
#include "tests/fakes/fake_launcher.h"
#include "tests/server/fake_parts.h"

namespace mpsd {
inline namespace testing_support {

// The stubs by short names: api.Call(&Jobs::Get, request).
using Jobs = v1::JobService::Stub;
using Artifacts = v1::ArtifactService::Stub;
using DaemonApi = v1::DaemonService::Stub;
using Access = v1::AccessService::Stub;
using Models = v1::ModelService::Stub;
using Runbook = v1::RunbookService::Stub;

absl::Status ToStatus(const grpc::Status& status);

// A request that names a job, or a token.
template <typename Request>
Request ById(const std::string& id) {
  Request request;
  request.set_id(id);
  return request;
}

// What a stream sent, and how it ended.
template <typename Message>
struct Streamed {
  std::vector<Message> messages;
  absl::Status end;
  const absl::Status& status() const { return end; }  // for the matchers
};

// The API as one caller has it.
class Api {
 public:
  // `token`: the caller's; empty: none.
  explicit Api(std::shared_ptr<grpc::Channel> channel, std::string token = "")
      : channel_(std::move(channel)), token_(std::move(token)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // v1::JobService, say.
  template <typename Service>
  std::unique_ptr<typename Service::Stub> Stub() const {
    return Service::NewStub(channel_);
  }
  std::unique_ptr<Jobs> jobs() const { return Stub<v1::JobService>(); }
  std::unique_ptr<Artifacts> artifacts() const {
    return Stub<v1::ArtifactService>();
  }

  // Gives a call the caller's token, and a minute.
  void Prepare(grpc::ClientContext& context) const;

  template <typename S, typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (S::*method)(grpc::ClientContext*, const Request&,
                                Response*),
      const std::type_identity_t<Request>& request = {}) const {
    grpc::ClientContext context;
    Prepare(context);
    S stub(channel_);
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) return ToStatus(status);
    return response;
  }
  // Reads the whole stream.
  template <typename S, typename Request, typename Message>
  Streamed<Message> Read(std::unique_ptr<grpc::ClientReader<Message>> (
                             S::*method)(grpc::ClientContext*, const Request&),
                         const std::type_identity_t<Request>& request) const {
    grpc::ClientContext context;
    Prepare(context);
    S stub(channel_);
    const auto reader = (stub.*method)(&context, request);
    Streamed<Message> streamed;
    Message message;
    while (reader->Read(&message)) streamed.messages.push_back(message);
    streamed.end = ToStatus(reader->Finish());
    return streamed;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::string token_;
};

// mpsd in the test's process, composed as server/daemon.cc does it: the real
// API on a unix socket and a port, queue, stores and files in a fresh folder.
// Time does not advance, no process runs (the test speaks for the worker), and
// the queue moves when the test ticks.
//
//   InProcessDaemon daemon;
//   const std::string id = daemon.Start({.owner = "ann", .name = "moods"});
//   daemon.Step(1);
//   daemon.End(jobs::ExitReason::kDone);
//   daemon.As("ann").Call(&Jobs::Get, ById<v1::GetJobRequest>(id))
class InProcessDaemon {
 public:
  struct Options {
    bool private_jobs = false;
    jobs::LimitSettings limits = {};
    jobs::Scheduler::Options scheduler = {};
    int64_t budget_bytes = 0;  // of the state folder; 0: none
    // Writes what an earlier daemon left in the folder.
    std::function<void(const std::filesystem::path& folder)> prepare =
        [](const std::filesystem::path&) {};
    // Changes what the server is started with.
    std::function<void(rpc::Options&)> rpc = [](rpc::Options&) {};
  };
  InProcessDaemon() : InProcessDaemon(Options()) {}
  explicit InProcessDaemon(Options options);
  ~InProcessDaemon();

  // --- Callers. The account that runs the test, over the socket, is an admin.
  const Api& admin() const { return *admin_; }
  // A user, by a token over the port.
  Api As(const std::string& user, access::Role role = access::Role::kUser);
  Api Stranger() const { return Api(port_channel_); }
  access::NewToken MakeToken(const std::string& user, access::Role role);
  std::string socket_path() const { return (folder / "mpsd.sock").string(); }
  std::string socket_address() const { return "unix:" + socket_path(); }
  // "127.0.0.1:PORT"
  std::string port_address() const { return server->addresses().at(1); }
  // Ends the server, and starts it again at the same addresses.
  void StopServing();
  void Serve();
  // What the server is started with.
  rpc::Options ServerOptions();

  // --- Jobs.
  struct Order {
    std::string owner = "ann";
    std::string name = {};
    int32_t priority = 0;
    jobs::JobKind kind = jobs::JobKind::kTraining;
    std::vector<std::string> after = {};
    bool held = false;
    std::map<std::string, std::string> labels = {};
  };
  // A job.json with the tiny model and a row of data. `more`: further fields,
  // as ", \"seed\": 1".
  std::string Spec(const std::string& name = "",
                   const std::string& more = "") const;
  // Each returns the job's id.
  std::string Enqueue(const jobs::SubmitRequest& request);
  std::string Submit(const Order& order);
  std::string Submit() { return Submit(Order()); }
  // One that runs: the device is free.
  std::string Start(const Order& order);
  std::string Start() { return Start(Order()); }
  // One that has ended for the reason.
  std::string Ended(const Order& order,
                    jobs::ExitReason reason = jobs::ExitReason::kDone);
  std::string Ended() { return Ended(Order()); }
  // A row in the store alone, which the queue does not know: of a job that
  // ended long ago, say.
  void Put(const jobs::Job& job, const std::vector<jobs::Event>& events = {});
  // The job of that id: "01J" and 23 digits.
  static jobs::Job MakeJob(int number, jobs::State state,
                           const std::string& owner = "ann");
  // Deletes a job that has ended: its record stays.
  void Delete(const std::string& id);

  jobs::Job Stored(const std::string& id) const { return *job_store->Get(id); }
  std::string Running() const { return board->Info().running_job_id; }

  // --- The worker of the running job, and time.
  jobs::WorkerListener& worker() { return *launcher.listener; }
  void Step(int64_t step, int64_t total_steps = 100);
  void Checkpoint(int64_t step);
  // The running job ends. A success has an adapter and a log.
  void End(jobs::ExitReason reason = jobs::ExitReason::kDone,
           const std::string& message = "");
  void Tick() { scheduler->Tick(); }
  void After(absl::Duration time) {
    clock.Advance(time);
    Tick();
  }

  // --- Files.
  // A tiny model and a row of data, which jobs may name.
  std::filesystem::path model() const { return folder / "given" / "model"; }
  std::filesystem::path data() const { return folder / "given" / "t.jsonl"; }
  std::filesystem::path RunFolder(const std::string& id) const {
    return files->OutputDir(id);
  }
  // Writes a file, with its folders.
  static void Write(const std::filesystem::path& path, const std::string& text);
  // The SHA-256 of the blob that has these bytes from now on; counted for the
  // user.
  std::string PutBlob(const std::string& bytes,
                      const std::string& user = "ann");

  // --- What the daemon wrote down. Waits until every entry has its end, and
  // forgets the entries; oldest first.
  std::vector<access::AuditEntry> TakeAudit();
  std::string log() const;
  // Past the stores: PRAGMA, a trigger that fails …
  void Execute(const std::string& sql);

  const std::filesystem::path folder;
  fakes::FakeClock clock;
  fakes::FakeLauncher launcher;
  fakes::FakeExportedMetrics metrics;
  fakes::FakeHost machine;
  fakes::FakeCalls calls;
  fakes::FakePlanner planner;
  fakes::FakePuller puller;
  fakes::FakeExaminer examiner;
  std::unique_ptr<store::Database> database;
  std::unique_ptr<jobs::JobStore> job_store;
  std::unique_ptr<jobs::KeptJobs> kept;
  std::unique_ptr<jobs::PastJobs> past;
  std::unique_ptr<access::AuditStore> audit_store;
  std::unique_ptr<access::AuditTrail> audit;
  std::unique_ptr<access::Tokens> token_store;
  std::unique_ptr<access::TokenBook> tokens;
  std::unique_ptr<store::BlobStore> blobs;
  std::shared_ptr<jobs::MeasuredFolders> folders;
  std::unique_ptr<jobs::UserLedger> ledger;
  std::unique_ptr<models::PushedModels> pushed_models;
  std::unique_ptr<models::ModelUses> model_uses;
  std::unique_ptr<models::PullLedger> pull_ledger;
  std::unique_ptr<models::ModelBook> model_book;
  std::unique_ptr<jobs::JobFiles> files;
  std::unique_ptr<records::RunWatch> run_watch;
  std::unique_ptr<records::JobRecords> job_records;
  std::unique_ptr<jobs::JobReader> board;
  std::unique_ptr<jobs::Scheduler> scheduler;
  std::unique_ptr<jobs::UnusedBlobs> unused_blobs;
  std::unique_ptr<jobs::Collector> collector;
  std::unique_ptr<rpc::RpcServer> server;

 private:
  void OpenStores();
  void OpenModels();
  void MakeScheduler();
  void Log(const std::string& line);

  Options options_;
  std::string port_ = "127.0.0.1:0";
  std::shared_ptr<grpc::Channel> port_channel_;
  std::optional<Api> admin_;
  int64_t audited_ = 0;  // the last entry that TakeAudit returned
  mutable absl::Mutex log_mutex_;
  std::string log_ ABSL_GUARDED_BY(log_mutex_);
};

}  // namespace testing_support
}  // namespace mpsd
