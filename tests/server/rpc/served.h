// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_SERVED_H_
#define MPSD_TESTS_SERVER_RPC_SERVED_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"
#include "server/doctor/judge.h"
#include "server/models/model_book.h"
#include "server/models/pushed_models.h"
#include "server/rpc/server.h"
#include "tests/server/access/fake_tokens.h"
#include "tests/server/models/fake_uses.h"
#include "tests/server/rpc/fake_audit_store.h"
#include "tests/server/rpc/fake_blobs.h"
#include "tests/server/rpc/fake_calls.h"
#include "tests/server/rpc/fake_collector.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/fake_puller.h"
#include "tests/server/rpc/some_records.h"

namespace mpsd::rpc {

// A new empty folder, removed with the object.
class Scratch {
 public:
  Scratch() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::path(testing::TempDir()) /
            ("mpsd-rpc-" + std::to_string(getpid()) + "-" +
             std::to_string(++counter));
    std::filesystem::create_directories(path_);
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

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
                                          SomeFacts(scratch_.path()));
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

  std::string socket_path() const {
    return (scratch_.path() / "mpsd.sock").string();
  }
  std::string Logged() {
    absl::MutexLock lock(&log_mutex_);
    return log_;
  }
  std::string address() const { return "unix:" + socket_path(); }

  std::unique_ptr<access::TokenBook> OpenTokens() {
    access::TokenBook::Options options = access::TokenBook::SystemOptions();
    options.end_streams = [this](const std::string& credential) {
      return server_->EndStreams(credential);
    };
    return *access::TokenBook::Open(stored_tokens_, base::Clock::Real(),
                                    std::move(options));
  }

  absl::Mutex log_mutex_;
  std::string log_ ABSL_GUARDED_BY(log_mutex_);
  Scratch scratch_;
  FakeManager manager_{scratch_.path() / "jobs"};
  FakeBlobs blobs_;
  FakeCalls calls_;
  SilentMachine examiner_;
  FakeCollector collector_;
  SomeRecords records_;
  models::FakeUses model_uses_;
  std::unique_ptr<models::PushedModels> pushed_models_ =
      *models::PushedModels::Open(scratch_.path() / "models",
                                  [](const std::string&) {});
  FakePuller puller_;
  models::ModelBook model_book_{*pushed_models_, model_uses_, &puller_};
  FakeAuditStore audit_entries_{3};
  access::FakeTokens stored_tokens_;
  std::unique_ptr<access::TokenBook> tokens_ = OpenTokens();
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
