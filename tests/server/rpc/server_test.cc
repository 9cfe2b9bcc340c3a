// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/access/token_book.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_tokens.h"
#include "tests/server/rpc/served.h"
#include "tests/server/rpc/test_pki.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ServerTest : public Served {
 protected:
  // grpc.health.v1.HealthCheckRequest{service = name}
  grpc::Status Health(const std::string& name, std::string& response) {
    std::string request;
    if (!name.empty()) {
      request = "\x0a" + std::string(1, static_cast<char>(name.size())) + name;
    }
    grpc::ClientContext context;
    return CallBytes(channel_, context, "/grpc.health.v1.Health/Check", request,
                     &response);
  }
};

TEST_F(ServerTest, TheSocketIsForItsOwnerAlone) {
  struct stat info;
  ASSERT_EQ(stat(socket_path().c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(server_->addresses(), testing::ElementsAre(address()));
  // A group may use it, too; and starting leaves the umask as it was.
  const mode_t mask = umask(022);
  umask(mask);
  const std::string path = socket_path() + "2";
  Options options;
  options.addresses = {"unix:" + path};
  options.socket_group = getegid();
  RpcServer other(options, manager_, manager_, blobs_, {});
  ASSERT_TRUE(other.Start().ok());
  EXPECT_EQ(umask(mask), mask);
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(ServerTest, HealthSaysServing) {
  const std::string kServing("\x08\x01");  // HealthCheckResponse{status = 1}
  std::string response;
  for (const char* service :
       {"", "mpsd.v1.JobService", "mpsd.v1.ArtifactService",
        "mpsd.v1.DaemonService", "mpsd.v1.AccessService"}) {
    ASSERT_TRUE(Health(service, response).ok()) << service;
    EXPECT_EQ(response, kServing);
  }
  EXPECT_EQ(Health("mpsd.v1.Nothing", response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, ReflectionListsTheServices) {
  std::string response;
  // ServerReflectionRequest{list_services = "*"}
  grpc::ClientContext context;
  const grpc::Status status = CallBytes(
      channel_, context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "\x3a\x01*", &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  for (const char* service : {"mpsd.v1.JobService", "mpsd.v1.ArtifactService",
                              "mpsd.v1.DaemonService", "mpsd.v1.AccessService",
                              "grpc.health.v1.Health"}) {
    EXPECT_THAT(response, HasSubstr(service));
  }
}

// Fifty people who look at all jobs keep nobody from looking at one.
TEST_F(ServerTest, NoCallWaitsForLists) {
  manager_.Put("10", jobs::State::kQueued);
  absl::Notification let_go;
  manager_.OnList([&let_go] { let_go.WaitForNotification(); });
  std::vector<std::thread> askers;
  for (int i = 0; i < 50; ++i) {
    askers.emplace_back([this] {
      grpc::ClientContext context;
      v1::ListJobsResponse response;
      EXPECT_TRUE(jobs_->List(&context, {}, &response).ok());
    });
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Get("10").ok());
  let_go.Notify();
  for (std::thread& asker : askers) asker.join();
}

// A call is the account's that connected, or the token's owner's.
TEST_F(ServerTest, AFreePortIsFoundAndServed) {
  FakeTokens tokens;
  tokens.Put("good", "eve", access::Role::kAdmin);
  FakeAudit audit;
  manager_.Put("a", jobs::State::kQueued);
  Options options;
  options.addresses = {"unix:" + socket_path() + "2", "127.0.0.1:0"};
  options.callers.tokens = &tokens;
  options.audit = &audit;
  RpcServer server(options, manager_, manager_, blobs_, {});
  ASSERT_TRUE(server.Start().ok());
  ASSERT_EQ(server.addresses().size(), 2u);
  EXPECT_THAT(server.addresses()[1], testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(server.addresses()[1], "127.0.0.1:0");
  std::vector<access::Caller> callers;
  for (const std::string& address : server.addresses()) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer good");
    v1::Job job;
    EXPECT_TRUE(
        v1::JobService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))
            ->Cancel(&context, ById<v1::CancelRequest>("a"), &job)
            .ok())
        << address;
    for (const FakeAudit::Entry& entry : audit.Take()) {
      callers.push_back(entry.request.caller);
    }
  }
  EXPECT_THAT(
      callers,
      testing::ElementsAre(
          access::Caller{*access::AccountName(geteuid()), access::Role::kAdmin,
                         access::Way::kSocket,
                         "uid " + std::to_string(geteuid()), "this machine"},
          access::Caller{"eve", access::Role::kAdmin, access::Way::kToken,
                         "token 0a1b2c3d4e5f", "127.0.0.1"}));
}

// Neither an interceptor nor a gate sees such a call.
TEST_F(ServerTest, ACallOfAStrangerIsCountedAndNoted) {
  FakeCalls calls;
  FakeAudit audit;
  Options options;
  options.addresses = {"127.0.0.1:0"};
  options.calls = &calls;
  options.audit = &audit;
  RpcServer server(options, manager_, manager_, blobs_, SomeFacts(scratch_));
  ASSERT_TRUE(server.Start().ok());
  auto stub = v1::JobService::NewStub(grpc::CreateChannel(
      server.addresses()[0], grpc::InsecureChannelCredentials()));
  grpc::ClientContext list_context, cancel_context;
  v1::ListJobsResponse jobs;
  v1::Job job;
  EXPECT_EQ(stub->List(&list_context, {}, &jobs).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stub->Cancel(&cancel_context, {}, &job).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(
      calls.Await(2),
      // A client has its answer before the report of its call.
      testing::UnorderedElementsAre(
          std::pair("JobService.List", absl::StatusCode::kUnauthenticated),
          std::pair("JobService.Cancel", absl::StatusCode::kUnauthenticated)));
  EXPECT_EQ(calls.open("JobService.List"), 0);
  // Reading is not audited.
  const std::vector<FakeAudit::Entry> entries = audit.Take();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_TRUE(entries[0].refused);
  EXPECT_EQ(entries[0].request.method, "JobService.Cancel");
  EXPECT_EQ(entries[0].request.caller.user, "");
}

TEST_F(ServerTest, ATakenPortIsRefusedAndNamed) {
  Options options;
  options.addresses = {"127.0.0.1:0"};
  RpcServer first(options, manager_, manager_, blobs_, {});
  ASSERT_TRUE(first.Start().ok());
  options.addresses = first.addresses();
  RpcServer second(options, manager_, manager_, blobs_, {});
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(first.addresses()[0]));
  RpcServer impossible({{"unix:/" + std::string(300, 'x')}}, manager_, manager_,
                       blobs_, {});
  EXPECT_TRUE(absl::IsInvalidArgument(impossible.Start()));
}

TEST_F(ServerTest, AStaleSocketIsReplaced) {
  server_.reset();
  // What a killed daemon leaves: a socket nobody listens on.
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un name = SocketName(socket_path());
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
            0);
  close(fd);
  RpcServer server({{address()}}, manager_, manager_, blobs_, {});
  EXPECT_TRUE(server.Start().ok());
}

TEST_F(ServerTest, AMessageOverTheLimitIsRefused) {
  EXPECT_EQ(Submit(std::string(33 << 20, ' ')).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServerTest, ShutdownEndsWatchersAndFollowersAtOnce) {
  manager_.Put("a", jobs::State::kRunning);
  auto follow = ById<v1::LogsRequest>("a");
  follow.set_follow(true);
  grpc::ClientContext watch_context, follow_context;
  auto watcher = Watch(watch_context);
  auto follower = jobs_->Logs(&follow_context, follow);
  ASSERT_TRUE(manager_.AwaitSubscribers(2));
  // An hour of grace: it must not be needed.
  std::thread shutdown([this] { server_->Shutdown(absl::Hours(1)); });
  v1::JobEvent event;
  v1::LogChunk chunk;
  EXPECT_FALSE(watcher->Read(&event));
  EXPECT_FALSE(follower->Read(&chunk));
  EXPECT_EQ(watcher->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(follower->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  shutdown.join();
  EXPECT_EQ(manager_.subscribers(), 0);
}

TEST_F(ServerTest, ShutdownCancelsWhatDoesNotEnd) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = artifacts_->Upload(&context, &response);
  ASSERT_TRUE(writer->Write(Header(std::string(64, 'a'), 5)));
  ASSERT_TRUE(blobs_.AwaitWriter());
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_TRUE(blobs_.AwaitNoWriters());
  EXPECT_FALSE(writer->Finish().ok());
}

TEST_F(ServerTest, ManyMayShutItDown) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this] { server_->Shutdown(absl::ZeroDuration()); });
  }
  for (std::thread& thread : threads) thread.join();
  struct stat info;
  EXPECT_NE(stat(socket_path().c_str(), &info), 0);
  v1::InfoResponse response;
  EXPECT_EQ(Info(response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

class WatchdogTest : public Served {
 protected:
  Watchdog::Options Impatient(const std::string& at) {
    Watchdog::Options options;
    options.address = at;
    options.interval = absl::Milliseconds(10);
    options.patience = absl::Milliseconds(200);
    options.deaf = [this](const std::string& why) {
      why_ = why;
      deaf_.Notify();
    };
    return options;
  }
  absl::Status AskForHealth() {
    grpc::ClientContext context;
    return AskHealth(address(), absl::Minutes(1), context);
  }
  std::string why_;
  absl::Notification deaf_;
};

TEST_F(WatchdogTest, ASocketThatNobodyServes) {
  Watchdog watchdog(Impatient("unix:" + socket_path() + ".none"));
  deaf_.WaitForNotification();
  EXPECT_THAT(why_, HasSubstr(".none"));
  EXPECT_THAT(why_, HasSubstr("3 times"));
}

// It connects, and hears nothing.
TEST_F(WatchdogTest, ASocketThatIsNotAccepted) {
  const std::string path = socket_path() + ".deaf";
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un name = SocketName(path);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
            0);
  ASSERT_EQ(listen(fd, 100), 0);
  {
    Watchdog watchdog(Impatient("unix:" + path));
    deaf_.WaitForNotification();
  }
  close(fd);
}

TEST_F(WatchdogTest, ItsEndWaitsForNoAnswer) {
  Watchdog::Options options = Impatient("unix:" + socket_path() + ".none");
  options.patience = absl::Hours(1);
  {
    Watchdog watchdog(options);
    absl::SleepFor(absl::Milliseconds(100));  // it asks by now
  }
  EXPECT_FALSE(deaf_.HasBeenNotified());
}

TEST_F(WatchdogTest, HealthIsAnsweredWhateverItIs) {
  EXPECT_TRUE(AskForHealth().ok());
  Watchdog::Options options = Impatient(address());
  options.patience = absl::Minutes(1);
  Watchdog watchdog(options);
  EXPECT_FALSE(deaf_.WaitForNotificationWithTimeout(absl::Seconds(1)));
}

// No thread of ours is needed to answer it.
TEST_F(WatchdogTest, ASlowDaemonIsNotDeaf) {
  absl::Notification go_on;
  manager_.OnSubmit(
      [&](const jobs::SubmitRequest&) -> absl::StatusOr<jobs::SubmitResult> {
        go_on.WaitForNotification();
        return absl::InternalError("");
      });
  std::vector<std::thread> submits;
  for (int i = 0; i < 20; ++i) {
    submits.emplace_back([this] { Submit(); });
  }
  EXPECT_TRUE(AskForHealth().ok());
  go_on.Notify();
  for (std::thread& submit : submits) submit.join();
}

// The real server with a port over TLS.
class ServerTlsTest : public testing::Test {
 protected:
  ServerTlsTest() {
    tokens_.Put("good", "eve", access::Role::kViewer);
    options_.addresses = {"127.0.0.1:0"};
    options_.callers.tokens = &tokens_;
    options_.callers.roles.viewers = {"guest"};
    options_.tls = {pki_.Server(), folder_ / "served"};
  }

  void Start() {
    server_ = std::make_unique<RpcServer>(options_, manager_, manager_, blobs_,
                                          SomeFacts(folder_));
    const absl::Status started = server_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }
  std::string Fault() {
    RpcServer server(options_, manager_, manager_, blobs_, {});
    return std::string(server.Start().message());
  }

  // `client`: a certificate to show; without files none.
  std::shared_ptr<grpc::Channel> Connect(const tls::ServerFiles& client = {},
                                         const fs::path& authority = {}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs =
        tls::Content(authority.empty() ? pki_.authority() : authority);
    if (!client.key.empty()) {
      options.pem_private_key = tls::Content(client.key);
      options.pem_cert_chain = tls::Content(client.certificate);
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const std::string& address = server_->addresses().front();
    return grpc::CreateCustomChannel(
        "localhost" + address.substr(address.rfind(':')),
        grpc::SslCredentials(options), arguments);
  }
  static grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& token = "",
                          absl::Duration patience = absl::Minutes(1)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(patience));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    v1::InfoResponse response;
    return v1::DaemonService::NewStub(channel)->Info(&context, {}, &response);
  }
  // Whether a new connection that trusts this authority alone is served at
  // last: two seconds are promised, and a busy machine needs more.
  bool IsServedSoon(const fs::path& authority) {
    const absl::Time end = absl::Now() + absl::Minutes(1);
    while (absl::Now() < end) {
      if (Ask(Connect({}, authority), "good", absl::Seconds(10)).ok()) {
        return true;
      }
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  const fs::path folder_ = testing_support::FreshFolder("server_tls");
  const tls::TestPki pki_{folder_ / "pki"};
  FakeTokens tokens_;
  FakeManager manager_;
  FakeBlobs blobs_;
  Options options_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(ServerTlsTest, ATokenIsServedOverTls) {
  Start();
  EXPECT_TRUE(Ask(Connect(), "good").ok());
  EXPECT_EQ(Ask(Connect(), "bad").error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Ask(Connect()).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  ASSERT_TRUE(server_->certificate_expiry().has_value());
  EXPECT_NEAR(absl::ToDoubleHours(*server_->certificate_expiry() - absl::Now()),
              30 * 24, 1);
  const auto plain = grpc::CreateChannel(server_->addresses().front(),
                                         grpc::InsecureChannelCredentials());
  EXPECT_EQ(Ask(plain, "good").error_code(), grpc::StatusCode::UNAVAILABLE);
  // A client's certificate makes it nobody.
  EXPECT_EQ(Ask(Connect(pki_.Client("ada", "/CN=ada"))).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ServerTlsTest, WhatIsServedIsTheOwnersAlone) {
  const mode_t mask = umask(0);
  Start();
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(options_.tls->served.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(ServerTlsTest, ARenewedCertificateIsServedAndNoStreamIsLost) {
  Start();
  manager_.Put("a", jobs::State::kRunning);
  const auto channel = Connect();
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer good");
  auto stream = v1::JobService::NewStub(channel)->Watch(
      &context, ById<v1::WatchRequest>("a"));
  ASSERT_TRUE(manager_.AwaitSubscribers(1));

  // Another authority, so that clients can tell the certificates apart.
  const tls::TestPki other(folder_ / "other");
  const tls::ServerFiles renewed = other.Server("server", 60);
  EXPECT_FALSE(Ask(Connect({}, other.authority()), "good").ok());
  for (const auto& [from, to] :
       {std::pair{renewed.key, options_.tls->files.key},
        std::pair{renewed.certificate, options_.tls->files.certificate}}) {
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }
  ASSERT_TRUE(server_->RenewTls().ok());
  EXPECT_NEAR(absl::ToDoubleHours(*server_->certificate_expiry() - absl::Now()),
              60 * 24, 1);
  EXPECT_TRUE(IsServedSoon(other.authority()));
  // The connection that was open before goes on.
  EXPECT_EQ(manager_.subscribers(), 1);
  EXPECT_TRUE(Ask(channel, "good").ok());
  context.TryCancel();
}

TEST_F(ServerTlsTest, ABrokenRenewalChangesNothing) {
  Start();
  const auto expiry = server_->certificate_expiry();
  for (const char* broken : {"", "-----BEGIN CERTIFICATE-----\nMIIB"}) {
    std::ofstream(options_.tls->files.certificate) << broken;
    EXPECT_TRUE(absl::IsInvalidArgument(server_->RenewTls()));
  }
  // A certificate whose key has not been copied yet.
  const tls::TestPki other(folder_ / "other");
  fs::copy_file(other.Server().certificate, options_.tls->files.certificate,
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(std::string(server_->RenewTls().message()),
              HasSubstr("the key is not the one of"));
  absl::SleepFor(absl::Seconds(2));
  EXPECT_TRUE(Ask(Connect(), "good").ok());
  EXPECT_EQ(server_->certificate_expiry(), expiry);
}

TEST_F(ServerTlsTest, FilesThatServeNothingAreNamed) {
  fs::remove(options_.tls->files.key);
  EXPECT_THAT(Fault(), HasSubstr(options_.tls->files.key.string()));
  options_.tls->files = pki_.Server();
  options_.tls->served = folder_ / "no" / "folder";
  EXPECT_THAT(Fault(), HasSubstr("no/folder"));
}

TEST_F(ServerTlsTest, WithoutACertificateAPortIsOfThisMachine) {
  options_.tls.reset();
  for (const char* address : {"0.0.0.0:0", "[::]:0", "mac.local:0"}) {
    options_.addresses = {address};
    EXPECT_THAT(Fault(), HasSubstr("without a certificate")) << address;
  }
  options_.addresses = {"127.0.0.1:0"};
  Start();
  EXPECT_EQ(server_->certificate_expiry(), std::nullopt);
  EXPECT_TRUE(server_->RenewTls().ok());
  const auto channel = grpc::CreateChannel(server_->addresses().front(),
                                           grpc::InsecureChannelCredentials());
  EXPECT_TRUE(Ask(channel, "good").ok());
  EXPECT_FALSE(Ask(channel).ok());
}

}  // namespace
}  // namespace mpsd::rpc
