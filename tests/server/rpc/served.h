// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_SERVED_H_
#define MPSD_TESTS_SERVER_RPC_SERVED_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "grpc/grpc.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/planner/doctor.h"
#include "server/models/model_book.h"
#include "server/models/pushed_models.h"
#include "server/rpc/server.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/test_store.h"
#include "tests/server/rpc/fake_blobs.h"
#include "tests/server/rpc/fake_callers.h"
#include "tests/server/rpc/fake_calls.h"
#include "tests/server/rpc/fake_collector.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/fake_puller.h"
#include "tests/server/rpc/some_records.h"

namespace mpsd::rpc {

inline DaemonFacts SomeFacts(const std::filesystem::path& state_dir) {
  DaemonFacts facts;
  facts.version = "0.1.0";
  facts.state_dir = state_dir.string();
  facts.metrics_address = "127.0.0.1:9464";
  facts.metrics_tls = true;
  facts.page_address = "127.0.0.1:9465";
  facts.start_time = absl::FromUnixSeconds(1'700'000'000);
  facts.schema_version = 1;
  facts.protocol_version = 1;
  return facts;
}

// A machine that tells nothing.
class SilentMachine final : public doctor::Examiner {
 public:
  absl::StatusOr<doctor::Facts> Examine(
      bool, const std::function<absl::Status()>&) override {
    return doctor::Facts();
  }
};

// A call of any method of any service: bytes to bytes.
inline grpc::Status CallBytes(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext& context,
                              const std::string& method,
                              const std::string& request,
                              std::string* response = nullptr) {
  const grpc::Slice slice(request);
  const grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  grpc::Status status;
  absl::Notification done;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, method, grpc::StubOptions(), &in, &out,
                 [&](grpc::Status answered) {
                   status = std::move(answered);
                   done.Notify();
                 });
  done.WaitForNotification();
  grpc::Slice whole;
  if (response != nullptr && status.ok() &&
      out.DumpToSingleSlice(&whole).ok()) {
    response->assign(whole.begin(), whole.end());
  }
  return status;
}

// The address of a unix socket, for the system's calls.
inline sockaddr_un SocketName(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  return name;
}

// gRPC stays up between tests: the end of its last user may wait for ten
// seconds.
inline const bool kGrpcIsUp = (grpc_init(), true);

// The real server over a unix socket, in front of a fake queue.
class Served : public testing::Test {
 protected:
  explicit Served(Options options = Options()) {
    options.addresses = {address()};
    options.log_poll_interval = absl::Milliseconds(5);
    options.calls = &calls_;
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&log_mutex_);
      log_ += line + "\n";
    };
    options.tokens = tokens_.get();
    options.audit_entries = &audit_entries_;
    options.models = &model_book_;
    options.puller = &puller_;
    options.collector = &collector_;
    if (options.examiner == nullptr) options.examiner = &examiner_;
    options.records = &records_.records;
    server_ = std::make_unique<RpcServer>(options, manager_, manager_, blobs_,
                                          SomeFacts(scratch_));
    absl::Status started = server_->Start();
    EXPECT_TRUE(started.ok()) << started;
    channel_ =
        grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
    jobs_ = v1::JobService::NewStub(channel_);
    artifacts_ = v1::ArtifactService::NewStub(channel_);
    daemon_ = v1::DaemonService::NewStub(channel_);
    access_ = v1::AccessService::NewStub(channel_);
    models_ = v1::ModelService::NewStub(channel_);
    runbook_ = v1::RunbookService::NewStub(channel_);
  }

  // A call that ends within a minute.
  template <typename Stub, typename Request, typename Response>
  static grpc::Status Ask(const std::unique_ptr<Stub>& stub,
                          grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                       const Request&,
                                                       Response*),
                          const std::type_identity_t<Request>& request,
                          Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(1));
    return (*stub.*method)(&context, request, &response);
  }
  grpc::Status Get(const std::string& id) {
    v1::Job job;
    return Ask(jobs_, &v1::JobService::Stub::Get, ById<v1::GetJobRequest>(id),
               job);
  }
  grpc::Status Info(v1::InfoResponse& response) {
    return Ask(daemon_, &v1::DaemonService::Stub::Info, {}, response);
  }
  grpc::Status Submit(const std::string& spec_json = "{}") {
    v1::SubmitRequest request;
    request.set_spec_json(spec_json);
    v1::SubmitResponse response;
    return Ask(jobs_, &v1::JobService::Stub::Submit, request, response);
  }
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> Watch(
      grpc::ClientContext& context, const std::string& id = "a",
      int64_t after = 0) {
    auto request = ById<v1::WatchRequest>(id);
    request.set_after_sequence(after);
    return jobs_->Watch(&context, request);
  }
  // The messages of an upload.
  static v1::UploadRequest Header(const std::string& sha256, int64_t size_bytes,
                                  int64_t offset_bytes = 0) {
    v1::UploadRequest request;
    request.mutable_header()->set_sha256(sha256);
    request.mutable_header()->set_size_bytes(size_bytes);
    request.mutable_header()->set_offset_bytes(offset_bytes);
    return request;
  }
  static v1::UploadRequest Data(const std::string& bytes) {
    v1::UploadRequest request;
    request.set_data(bytes);
    return request;
  }

  std::string socket_path() const { return (scratch_ / "mpsd.sock").string(); }
  std::string Logged() {
    absl::MutexLock lock(&log_mutex_);
    return log_;
  }
  std::string address() const { return "unix:" + socket_path(); }

  absl::Mutex log_mutex_;
  std::string log_ ABSL_GUARDED_BY(log_mutex_);
  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
  FakeManager manager_{scratch_ / "jobs"};
  FakeBlobs blobs_;
  FakeCalls calls_;
  SilentMachine examiner_;
  FakeCollector collector_;
  SomeRecords records_;
  fakes::TestStore db_;
  models::ModelUses model_uses_{db_.database()};
  std::unique_ptr<models::PushedModels> pushed_models_ =
      *models::PushedModels::Open(scratch_ / "models",
                                  [](const std::string&) {});
  FakePuller puller_;
  models::ModelBook model_book_{*pushed_models_, model_uses_, &puller_};
  access::AuditStore audit_entries_{db_.database()};
  access::Tokens stored_tokens_{db_.database()};
  std::unique_ptr<access::TokenBook> tokens_ = *access::TokenBook::Open(
      stored_tokens_, base::Clock::Real(), access::TokenBook::SystemOptions());
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::DaemonService::Stub> daemon_;
  std::unique_ptr<v1::RunbookService::Stub> runbook_;
  std::unique_ptr<v1::AccessService::Stub> access_;
  std::unique_ptr<v1::ModelService::Stub> models_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_SERVED_H_
